// The kernel table: one OpKernel per primitive, one entry per device type. A kernel receives plain
// pointers and sizes; the op in core/ops has checked shapes and dtypes once.
#pragma once

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/device.h"
#include "ringlet/core/device/observers.h"

namespace ringlet {

/// Fills the table and installs the backends of all device types, the first time only.
void ensure_registered();

template <class Args>
class OpKernel {
 public:
  using Function = void (*)(const Args& args, Device device);

  constexpr explicit OpKernel(const char* name) : name_(name) {}
  OpKernel(const OpKernel&) = delete;
  OpKernel& operator=(const OpKernel&) = delete;

  const char* name() const { return name_; }
  void set(DeviceType type, Function function) { entries_[static_cast<int>(type)] = function; }

  void operator()(const Args& args, Device device) const {
    ensure_registered();
    const Function function = entries_[static_cast<int>(device.type)];
    RINGLET_CHECK(function, "[", name_, "] has no kernel for ", device);
    KernelObserver* const observer = kernel_observer.load(std::memory_order_acquire);
    if (observer) [[unlikely]]
      observer->before(name_, &args, device);
    function(args, device);
    if (observer) [[unlikely]]
      observer->after(name_, &args, device);
  }

 private:
  const char* name_;
  Function entries_[kDeviceTypes] = {};
};

}  // namespace ringlet
