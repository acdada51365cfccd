// The tests of one folder, on any device: `core_tests --device cuda` makes tensors there. `--device
// delayed` (or `delayed:SEED`) uses the device of delayed_device.h. `--device emulated` (or
// `emulated:SEED`), in a program that is linked with it, uses the GPU of emulated/emulated.h. Exit
// code 77, which Meson calls skipped, if that device, or the instruction set in RINGLET_ISA, is
// missing. Devices other than cpu:0 skip the cases of the suite "host": these need no device, or
// only a CPU.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "delayed_device.h"
#include "device.h"
#include "emulated/emulated.h"
#include "extended.h"
#include "files.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/device/device.h"
#if defined(RINGLET_TESTS_NCCL)
#include "fake_nccl.h"
#endif

namespace {

constexpr int kSkipped = 77;
constexpr int kBadInput = 2;

/// "delayed" replaces the CUDA devices, and NCCL.
struct Delayed {
  std::optional<ringlet::DelayedDevice> device;
#if defined(RINGLET_TESTS_NCCL)
  std::optional<ringlet::FakeNccl> nccl;
#endif

  void take_over(unsigned seed) {
    device.emplace(seed);
#if defined(RINGLET_TESTS_NCCL)
    nccl.emplace(*device);
#endif
  }
};

// The seed of "delayed:SEED" or "emulated:SEED"; 1 without one.
unsigned seed_of(std::string_view name) {
  const auto colon = name.find(':');
  return colon == name.npos ? 1 : static_cast<unsigned>(std::atoi(name.data() + colon + 1));
}

ringlet::Device find_device(std::string_view name, Delayed& delayed) {
  if (name.starts_with("delayed")) {
    delayed.take_over(seed_of(name));
  } else if (name.starts_with("emulated")) {
    if (!ringlet::emulated::configure)
      throw ringlet::InputError("this program is not linked with the emulated GPU");
    auto settings = ringlet::emulated::settings();
    settings.seed = seed_of(name);
    ringlet::emulated::configure(settings);
  } else {
    return ringlet::Device::parse(name);
  }
  return {ringlet::DeviceType::cuda, 0};
}

/// Removes "--device NAME" from `arguments`.
ringlet::Device take_device(std::vector<char*>& arguments, Delayed& delayed) {
  ringlet::Device device;
  for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
    if (std::string_view(arguments[i]) != "--device") continue;
    device = find_device(arguments[i + 1], delayed);
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, at + 2);
    break;
  }
  return device;
}

}  // namespace

std::string ringlet::tests_file(const std::string& name) { return RINGLET_TESTS_DIR "/" + name; }

bool ringlet::is_extended() { return std::getenv("RINGLET_EXTENDED_TESTS") != nullptr; }

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  try {
    ringlet::cpu::isa();
  } catch (const ringlet::InputError& error) {
    std::puts(error.what());
    return kSkipped;
  }
  Delayed delayed;
  ringlet::Device device;
  try {
    device = take_device(arguments, delayed);
  } catch (const ringlet::InputError& error) {
    std::puts(error.what());
    return kBadInput;
  }
  try {
    ringlet::set_default_device(device);
    ringlet::has_shape_free_products =
        device.type == ringlet::DeviceType::cpu || delayed.device.has_value();
  } catch (const ringlet::Error& error) {
    std::printf("skipped: %s\n", error.what());
    return kSkipped;
  }
  doctest::Context tests(static_cast<int>(arguments.size()), arguments.data());
  if (device != ringlet::Device{}) tests.addFilter("test-suite-exclude", "host");
  return tests.run();
}
