#include "modelled_time.h"

#include <algorithm>
#include <cmath>

namespace ringlet::bench {
namespace {

using emulated::InstructionClass;
using emulated::LaunchCounters;

constexpr double kLaunchSeconds = 1e-6;
constexpr double kCacheBytes = 64, kIssued = 4, kLanes = 32;  // a clock and multiprocessor
constexpr double kMmaFlops = 2 * 16 * 8 * 16;                 // of one instruction

/// Operations a clock and multiprocessor; 0 for classes with no limit but the issue.
double operations(InstructionClass which, const DataSheet& gpu) {
  using Class = InstructionClass;
  if (which == Class::integer) return 64;
  if (which == Class::f32) return gpu.f32;
  if (which == Class::f64) return gpu.f64;
  if (which == Class::special) return 16;
  if (which == Class::conversion) return gpu.conversions;
  const bool moves = which == Class::shuffle || which == Class::global || which == Class::shared ||
                     which == Class::local;
  return moves ? 32 : 0;
}

/// Clocks of one multiprocessor, were all work its own.
double clocks(const LaunchCounters& launch, const DataSheet& gpu) {
  const auto count = [&](InstructionClass which) {
    return static_cast<double>(launch.warps[static_cast<std::size_t>(which)]);
  };
  double most = static_cast<double>(launch.bank_passes);
  most = std::max(most, static_cast<double>(launch.sectors * emulated::kSectorBytes) / kCacheBytes);
  const double issued =
      static_cast<double>(launch.warp_instructions()) - count(InstructionClass::move);
  most = std::max(most, issued / kIssued);
  for (std::size_t i = 0; i < emulated::kInstructionClasses; ++i) {
    const auto which = static_cast<InstructionClass>(i);
    if (const double each = operations(which, gpu); each > 0)
      most = std::max(most, count(which) * kLanes / each);
  }
  const double peak =
      launch.tensor_cores || count(InstructionClass::mma) > 0 ? gpu.tensor_flops : gpu.f32_flops;
  const double flops = static_cast<double>(launch.flops) + count(InstructionClass::mma) * kMmaFlops;
  return std::max(most, flops / (peak / gpu.multiprocessors / gpu.clock()));
}

}  // namespace

double modelled_seconds(const LaunchCounters& launch, const DataSheet& gpu) {
  const double blocks = std::max<double>(1, static_cast<double>(launch.blocks));
  const double waves = std::ceil(blocks / gpu.multiprocessors);
  // A matrix product reads its operands more often than once, from its own shared memory.
  const double sectors = static_cast<double>(launch.touched_sectors);
  const double memory =
      sectors * static_cast<double>(emulated::kSectorBytes) / gpu.bytes_per_second;
  return kLaunchSeconds + std::max(memory, clocks(launch, gpu) * waves / blocks / gpu.clock());
}

}  // namespace ringlet::bench
