// A GPU without free memory, and uploads beyond the staging ring: build/tests/cuda/cuda_tests
// --device cuda.
#include <doctest/doctest.h>

#include "on_gpu.h"
#include "ringlet/core/base/error.h"
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

TEST_CASE("cuda: an upload of more bytes than the ring of pinned memory leaves each as it was") {
  if (skipped()) return;
  Tensor host = empty({3 << 20}, DType::i32, Device{});  // 12 MiB; the ring has 8
  auto* const values = host.mutable_data<std::int32_t>();
  for (std::int32_t i = 0; i < 3 << 20; ++i) values[i] = i;
  const std::vector<std::int32_t> back = host.to(default_device()).to_vector<std::int32_t>();
  for (std::size_t i = 0; i < back.size(); i += 4093)
    CHECK(back[i] == static_cast<std::int32_t>(i));
}
