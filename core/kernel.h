// The kernel table: one Kernel per primitive, one entry per device type. A kernel sees plain
// pointers and sizes only; shapes and dtypes were checked once, by the op in core/ops.
#pragma once

#include "ringlet/core/backend.h"
#include "ringlet/core/error.h"

namespace ringlet {

template <class Args>
class Kernel {
 public:
  using Function = void (*)(const Args& args, Device device);

  constexpr explicit Kernel(const char* name) : name_(name) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  void set(DeviceType type, Function function) { entries_[static_cast<int>(type)] = function; }

  void operator()(const Args& args, Device device) const {
    ensure_registered();
    const Function function = entries_[static_cast<int>(device.type)];
    RINGLET_CHECK(function, "[", name_, "] has no kernel for ", device);
    function(args, device);
  }

 private:
  const char* name_;
  Function entries_[kDeviceTypes] = {};
};

}  // namespace ringlet
