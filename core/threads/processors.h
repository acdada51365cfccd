// The processors on which a device's threads run.
#pragma once

#include <vector>

#include "ringlet/core/device/device.h"

namespace ringlet {

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
