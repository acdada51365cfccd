// The kernels of attention on a GPU, with and without tensor cores, forward and backward:
// build/tests/cuda/cuda_tests --device cuda.
#include <doctest/doctest.h>

#include "attention_cases.h"
#include "on_gpu.h"

using namespace ringlet;

namespace {

Tensor moved(const Tensor& x, Device device) { return x ? x.to(device) : Tensor(); }

AttentionInputs on(Device device, const AttentionInputs& in) {
  AttentionOptions options = in.options;
  for (Tensor* x : {&options.relative_bias, &options.sentence_ids, &options.lengths})
    *x = moved(*x, device);
  return {in.qkv.to(device), in.grad.to(device), in.cu_seqlens.to(device), options};
}

void check_on_device(const AttentionCase& c) {
  CAPTURE(name(c.dtype));
  CAPTURE(c.size);
  CAPTURE(c.p);
  CAPTURE(c.biased);
  const AttentionInputs in = inputs_of(c);
  // Tensor cores take bf16, and round the weights to it.
  const double weights = c.dtype == DType::bf16 ? 0x1p-8 : 0;
  check_errors(errors_of(c, in, by_op(on(default_device(), in)), weights));
}

// The same elements, 2 bytes after a multiple of 16: unsuitable for tensor cores.
Tensor shifted(const Tensor& x) {
  const std::int64_t n = x.numel();
  Tensor behind = empty({n + 1}, x.dtype(), x.device()).slice(1, n + 1).view(x.shape());
  behind.copy_(x);
  return behind;
}

}  // namespace

TEST_CASE("cuda: on a GPU, attention and its gradients are the CPU's, up to 512 tokens") {
  if (skipped()) return;
  const std::vector<std::int32_t> lengths{1, 17, 0, 32, 33, 64, 512, 65, 350, 130};
  for (DType dtype : {DType::f32, DType::bf16})
    for (std::int64_t size : {32, 64})
      for (float p : {0.0f, 0.1f})
        for (bool biased : {false, true}) check_on_device({lengths, {}, 2, size, p, biased, dtype});
}

TEST_CASE("cuda: on a GPU, no token attends to padding") {
  if (skipped()) return;
  for (DType dtype : {DType::f32, DType::bf16})
    for (std::int64_t size : {32, 64})
      check_on_device({{25, 48, 512, 65, 350}, {20, 5, 384, 33, 9}, 3, size, 0.1f, true, dtype});
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
    // Otherwise one kernel made both, so the above was not on tensor cores.
    CHECK(rows.out.to_vector() != tiles.out.to_vector());
    CHECK(rows.grad_qkv.to_vector() != tiles.grad_qkv.to_vector());
  }
}
