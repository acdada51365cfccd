#include "ringlet/core/threads/processors.h"

#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "ringlet/core/base/error.h"

namespace ringlet {
namespace {

namespace fs = std::filesystem;

/// The quota of one folder, per period: "200000 100000" in v2, two files in v1. A group without a
/// limit has "max" or -1.
std::optional<double> limit_in(const fs::path& folder) {
  double quota = 0, period = 0;
  if (!(std::ifstream(folder / "cpu.max") >> quota >> period)) {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

/// The same in all containers of a host, though each may see its group under another name.
std::string id_of(const fs::path& folder) {
  struct stat info {};
  return stat(folder.c_str(), &info) == 0 ? str(info.st_dev, ':', info.st_ino) : "";
}

/// The controllers of a line "4:cpu,cpuacct:/path" include the processors'; "0::/path" is v2.
bool limits_processors(const std::string& controllers) {
  return controllers.empty() || (',' + controllers + ',').find(",cpu,") != std::string::npos;
}

}  // namespace

std::optional<CpuLimit> cpu_limit(const fs::path& process, const fs::path& mount) {
  std::optional<CpuLimit> lowest;
  std::ifstream lines(process);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!limits_processors(controllers)) continue;
    const fs::path root = mount / controllers;
    // A container may not see its own path below the mount: the mount is then its group.
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();;
         group = group.parent_path()) {
      const auto limit = limit_in(root / group);
      if (limit && (!lowest || *limit < lowest->processors)) lowest = {*limit, id_of(root / group)};
      if (group.empty()) break;
    }
  }
  return lowest;
}

int usable_processors(const std::optional<CpuLimit>& limit) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const double most = limit ? limit->processors : allowed;
  return std::max(1, static_cast<int>(std::min<double>(allowed, most)));
}

}  // namespace ringlet
