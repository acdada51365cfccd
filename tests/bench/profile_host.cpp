#include "ringlet/bench/profile.h"

#include <doctest/doctest.h>

#include <thread>

#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;
using namespace ringlet::bench;

TEST_CASE("a step's kernels are its thread's, those of others at the time beside it, and no more") {
  const Device cpu{};
  const Tensor a = normal({4, 4}, 0, 1, DType::f32, cpu);
  const auto profile = host_profile(cpu);
  const auto multiply = [&] { static_cast<void>(matmul(a, a)); };
  for (int step = 0; step < 2; ++step) {
    profile->run([&](bool) {
      multiply();
      std::thread(multiply).join();
    });
    multiply();  // between steps
  }
  const StepTimes times = profile->per_step();
  REQUIRE(times.kernels.size() == 1);
  REQUIRE(times.beside.size() == 1);
  CHECK(times.kernels.at("matmul NN Tx4x4").calls == 1);
  CHECK(times.beside.at("matmul NN Tx4x4").calls == 1);
  CHECK(profile->per_step().beside.size() == 1);  // nor the measurement of the ceilings
}
