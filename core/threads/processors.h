// The processors that this process may use, and those on which a device's threads run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/core/device/device.h"

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

/// Sets the processors for threads of the device: its pool (core/threads/parallel.h) and the
/// threads that call keep_to. By default they run wherever the process may. A forked child starts
/// without this. Error if `processors` is empty or the system refuses them.
void set_processors(Device device, std::vector<int> processors);
/// Pins the calling thread, and all threads that it starts later, to the device's processors.
void keep_to(Device device);
/// Pins the calling thread during this object's lifetime; then restores its former processors.
class KeepTo {
 public:
  explicit KeepTo(Device device);
  ~KeepTo();
  KeepTo(const KeepTo&) = delete;
  KeepTo& operator=(const KeepTo&) = delete;

 private:
  std::vector<int> before_;  // empty: nothing was changed
};

}  // namespace ringlet
