// Logical devices. On a CPU a device is a set of threads of its own (cpu:0, cpu:1, …).
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

  /// The first CUDA device where there is one, else cpu:0; or what set_best() said.
  static Device best();
  /// A launched rank's own device. It must exist.
  static void set_best(Device device);
  /// "cpu", "cuda", "cpu:1"; throws InputError otherwise.
  static Device parse(std::string_view text);
  auto operator<=>(const Device&) const = default;
};

/// Of ranks that are threads: a CPU device each, from `first` on; of GPUs those there are in turn,
/// so that ranks beyond them share.
Device device_of_rank(Device first, int rank);

/// Where tensors are made that are not told otherwise: cpu:0, or what set_default_device() said for
/// the whole process, or a guard for this thread. `Device{}` is cpu:0 always.
Device default_device();
/// It must exist.
void set_default_device(Device device);

/// For a scope, this thread's default device: of a rank that is a thread and has a GPU of its own.
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
