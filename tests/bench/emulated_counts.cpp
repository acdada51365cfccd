#include "ringlet/bench/emulated_counts.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("host");

using namespace ringlet::bench;
using ringlet::emulated::InstructionClass;
using ringlet::emulated::LaunchCounters;

namespace {

constexpr double kLaunch = 1e-6;
constexpr const DataSheet& kH200 = kDataSheets[3];

LaunchCounters launch_of(std::uint64_t blocks, InstructionClass which, std::uint64_t warps) {
  LaunchCounters made;
  made.blocks = blocks;
  made.warps[static_cast<std::size_t>(which)] = warps;
  return made;
}

}  // namespace

TEST_CASE("modelled time: the data sheets' peaks are reached by the work that they name") {
  LaunchCounters memory;
  memory.touched_sectors = 4'800'000'000 / 32;  // a thousandth of a second's bytes on an H200
  CHECK(modelled_seconds(memory, kH200) == doctest::Approx(1e-3 + kLaunch));
  // A multiply-add is two operations: half of the peak in instructions of lanes.
  const auto lanes = static_cast<std::uint64_t>(kH200.f32_flops / 2 * 1e-3);
  const LaunchCounters f32 = launch_of(132, InstructionClass::f32, lanes / 32);
  CHECK(modelled_seconds(f32, kH200) == doctest::Approx(1e-3 + kLaunch));
  LaunchCounters product;
  product.blocks = 264, product.tensor_cores = true;
  product.flops = 989'000'000'000;
  CHECK(modelled_seconds(product, kH200) == doctest::Approx(1e-3 + kLaunch));
}

TEST_CASE("modelled time: blocks come in waves, and few of them use few multiprocessors") {
  const auto seconds = [](std::uint64_t blocks) {
    return modelled_seconds(launch_of(blocks, InstructionClass::integer, 1000 * blocks), kH200) -
           kLaunch;
  };
  CHECK(seconds(1) == doctest::Approx(seconds(132)));
  CHECK(seconds(133) == doctest::Approx(2 * seconds(132)));
}

TEST_SUITE_END();
