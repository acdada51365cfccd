// Logical devices. On a CPU a device is a separate set of threads (cpu:0, cpu:1, …).
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace ringlet {

enum class DeviceType : std::uint8_t { cpu, cuda };
inline constexpr int kDeviceTypes = 2;

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  /// The device of set_best(), else the first CUDA device if there is one, else cpu:0.
  static Device best();
  /// Sets best() to the device of a launched rank. It must exist.
  static void set_best(Device device);
  /// "cpu", "cuda", "cpu:1"; throws InputError otherwise.
  static Device parse(std::string_view text);
  auto operator<=>(const Device&) const = default;
};

/// The device of a rank that is a thread. On CPUs these are the devices from `first` on; on GPUs
/// round-robin, so that ranks beyond their number share one.
Device device_of_rank(Device first, int rank);

/// The device of new tensors if the caller names none: that of this thread's guard, else that of
/// set_default_device() (process), else cpu:0. `Device{}` is always cpu:0.
Device default_device();
/// It must exist.
void set_default_device(Device device);

/// Sets this thread's default device for a scope, for a rank that is a thread with a GPU.
class DefaultDeviceGuard {
 public:
  /// It must exist.
  explicit DefaultDeviceGuard(Device device);
  ~DefaultDeviceGuard();
  DefaultDeviceGuard(const DefaultDeviceGuard&) = delete;
  DefaultDeviceGuard& operator=(const DefaultDeviceGuard&) = delete;

 private:
  int before_;
};

std::string_view name(DeviceType type);                      // "cpu"
std::ostream& operator<<(std::ostream& out, Device device);  // "cpu:0"

}  // namespace ringlet
