// Which processors the threads of a device keep to.
#pragma once

#include <vector>

#include "ringlet/core/device.h"

namespace ringlet {

/// The processors that threads of the device keep to: those of its pool (core/parallel.h), and the
/// ones that call keep_to. Unless set, they run where the process may. A forked child begins anew.
/// Error where there are none, or the system refuses them.
void set_processors(Device device, std::vector<int> processors);
/// From now on the calling thread, and each that it starts, keeps to the device's processors.
void keep_to(Device device);
/// The same of the calling thread while it lives; then it runs where it did before.
class KeepTo {
 public:
  explicit KeepTo(Device device);
  ~KeepTo();
  KeepTo(const KeepTo&) = delete;
  KeepTo& operator=(const KeepTo&) = delete;

 private:
  std::vector<int> before_;  // empty: nothing has changed
};

}  // namespace ringlet
