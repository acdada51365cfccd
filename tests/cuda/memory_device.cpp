// A GPU without free memory: build/tests/cuda/cuda_tests --device cuda.
#include <doctest/doctest.h>

#include "on_gpu.h"
#include "ringlet/core/error.h"
#include "ringlet/core/ops/elementwise.h"

using namespace ringlet;

TEST_CASE("cuda: memory that ends is an error that says what was needed, and can be gone on from") {
  if (skipped()) return;
  const Tensor kept = ones({1 << 20});
  const std::int64_t too_many = std::int64_t{1} << 40;
  try {
    const Tensor tensor = empty({too_many});
    FAIL("no GPU has four tebibytes");
  } catch (const Error& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(message.starts_with(
        str("[allocate] ", 4 * too_many, " bytes on ", default_device(), ": out of memory, ")));
    CHECK(message.find("; the device has ") != std::string::npos);
  }
  CHECK(add(kept, kept)[12345].item() == 2);
}
