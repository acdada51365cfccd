// The processors that this process may use.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ringlet {

/// A limit of CPU time per time, in processors, and the control group that all its users share.
struct CpuLimit {
  double processors;
  std::string group;
};

/// The lowest limit of this process's control group (cgroup v2 or v1) and of those above it.
std::optional<CpuLimit> cpu_limit(const std::filesystem::path& process = "/proc/self/cgroup",
                                  const std::filesystem::path& mount = "/sys/fs/cgroup");

/// The processors of this process's affinity, at most the whole ones of the limit, and at least 1.
int usable_processors(const std::optional<CpuLimit>& limit = cpu_limit());

}  // namespace ringlet
