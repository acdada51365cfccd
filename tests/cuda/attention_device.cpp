// The kernels of attention on a GPU, with and without tensor cores, forward and backward:
// build/tests/cuda/cuda_tests --device cuda.
#include <doctest/doctest.h>

#include "attention_cases.h"
#include "on_gpu.h"

using namespace ringlet;

TEST_CASE("cuda: on a GPU, attention and its gradients are the CPU's, up to 512 tokens") {
  if (skipped()) return;
  const std::vector<std::int32_t> lengths{1, 17, 0, 32, 33, 64, 512, 65, 350, 130};
  for (DType dtype : {DType::f32, DType::bf16})
    for (std::int64_t size : {32, 64})
      for (float p : {0.0f, 0.1f})
        for (bool biased : {false, true}) check_on_device({lengths, {}, 2, size, p, biased, dtype});
  check_on_device({{1, 210}, {}, 1, 5, 0.3f, true, DType::f64});
}

TEST_CASE("cuda: on a GPU, no token attends to padding") {
  if (skipped()) return;
  for (DType dtype : {DType::f32, DType::bf16})
    for (std::int64_t size : {32, 64})
      check_on_device({{25, 48, 512, 65, 350}, {20, 5, 384, 33, 9}, 3, size, 0.1f, true, dtype});
}
