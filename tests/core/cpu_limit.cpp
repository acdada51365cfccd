#include "ringlet/core/threads/processors.h"

#include <doctest/doctest.h>
#include <sched.h>

#include "ringlet/core/io/file.h"
#include "ringlet/tests/files.h"

using namespace ringlet;
namespace fs = std::filesystem;

namespace {

/// A mount of control groups, and the file that names the group of a process.
struct Groups {
  TemporaryFolder folder;
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    write_file(folder / name, text);
  }
  std::optional<CpuLimit> limit(const std::string& process) const {
    write_file(folder / "process", process);
    return cpu_limit(folder / "process", folder / "mount");
  }
};

}  // namespace

TEST_CASE("the limit of processors is the lowest of a group and of those above it") {
  const Groups groups;
  CHECK_FALSE(groups.limit("0::/a/b\n"));
  groups.put("mount/a/b/cpu.max", "max 100000\n");
  CHECK_FALSE(groups.limit("0::/a/b\n"));
  groups.put("mount/a/cpu.max", "250000 100000\n");
  REQUIRE(groups.limit("0::/a/b\n"));
  CHECK_EQ(groups.limit("0::/a/b\n")->processors, 2.5);
  CHECK_EQ(groups.limit("0::/a/b\n")->group, groups.limit("0::/a\n")->group);
  groups.put("mount/a/b/cpu.max", "50000 100000\n");
  CHECK_EQ(groups.limit("0::/a/b\n")->processors, 0.5);
  CHECK_NE(groups.limit("0::/a/b\n")->group, groups.limit("0::/a\n")->group);
  // In a container the group is the mounted root; a second group is outside it.
  groups.put("mount/cpu.max", "400000 100000\n");
  CHECK_EQ(groups.limit("0::/\n")->processors, 4);
  CHECK_EQ(groups.limit("0::/../other\n")->processors, 4);
}

TEST_CASE("usable processors are the whole ones of a limit, and at least one") {
  const Groups groups;
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  const auto with = [&](const std::string& quota) {
    groups.put("mount/job/cpu.max", quota + " 100000\n");
    return usable_processors(groups.limit("0::/job\n"));
  };
  CHECK_EQ(with("max"), CPU_COUNT(&set));
  CHECK_EQ(with("400000000"), CPU_COUNT(&set));
  CHECK_EQ(with("199999"), 1);
  CHECK_EQ(with("250000"), std::min(2, CPU_COUNT(&set)));
  CHECK_EQ(with("50000"), 1);
}

TEST_CASE("the limit of processors in version 1 belongs to its controller") {
  const Groups groups;
  groups.put("mount/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  groups.put("mount/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  groups.put("mount/cpuset/job/cpu.cfs_quota_us", "100000\n");
  groups.put("mount/cpuset/job/cpu.cfs_period_us", "100000\n");
  const std::string process = "5:cpuset:/job\n4:cpu,cpuacct:/job\n0::/job\n";
  CHECK_FALSE(groups.limit(process));
  groups.put("mount/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  REQUIRE(groups.limit(process));
  CHECK_EQ(groups.limit(process)->processors, 3);
}
