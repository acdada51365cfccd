// Attention on tensor cores, in short sentences: at the edges of tiles, none, at any address.
#include <doctest/doctest.h>

#include "attention_cases.h"
#include "on_gpu.h"

using namespace ringlet;

namespace {

// The same elements, 2 bytes after a multiple of 16: unsuitable for tensor cores.
Tensor shifted(const Tensor& x) {
  const std::int64_t n = x.numel();
  Tensor behind = empty({n + 1}, x.dtype(), x.device()).slice(1, n + 1).view(x.shape());
  behind.copy_(x);
  return behind;
}

}  // namespace

TEST_CASE("cuda: on a GPU, attention on tensor cores is the CPU's at the edges of tiles") {
  if (skipped()) return;
  for (std::int64_t size : {32, 64})
    check_on_device({{1, 16, 33}, {1, 15, 17}, 1, size, 0.1f, true, DType::bf16});
}

TEST_CASE("cuda: on a GPU, no sentences and empty ones have a bias gradient of 0") {
  if (skipped()) return;
  for (DType dtype : {DType::f32, DType::bf16})
    for (std::size_t sentences : {0, 1, 3})
      check_on_device({std::vector<std::int32_t>(sentences), {}, 2, 64, 0.1f, true, dtype});
}

TEST_CASE("cuda: on a GPU, other kernels take what tensor cores cannot: bf16 at any address") {
  if (skipped()) return;
  for (std::int64_t size : {32, 64}) {
    CAPTURE(size);
    const AttentionCase c{{65, 130}, {}, 2, size, 0.1f, true, DType::bf16};
    const AttentionInputs in = inputs_of(c);
    AttentionInputs device = on(default_device(), in);
    const AttentionResults tiles = by_op(device);
    device.qkv = shifted(device.qkv);
    const AttentionResults rows = by_op(device);
    check_errors(errors_of(c, in, rows, 0));
    check_errors(errors_of(c, in, tiles, 0x1p-8));
    // Otherwise one kernel made both, so the above was not on tensor cores.
    CHECK(rows.out.to_vector() != tiles.out.to_vector());
    CHECK(rows.grad_qkv.to_vector() != tiles.grad_qkv.to_vector());
  }
}
