// Attention on tensor cores, in short sentences: at the edges of tiles, none, at any address.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_cases.h"
#include "on_gpu.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;

namespace {

// The same elements, 2 bytes after a multiple of 16: unsuitable for tensor cores.
Tensor shifted(const Tensor& x) {
  const std::int64_t n = x.numel();
  Tensor behind = empty({n + 1}, x.dtype(), x.device()).slice(1, n + 1).view(x.shape());
  behind.copy_(x);
  return behind;
}

void check_finite(const AttentionInputs& in) {
  const AttentionResults results = by_op(on(default_device(), in));
  for (const Tensor& x : {results.out, results.lse, results.grad_qkv, results.grad_bias})
    for (const float value : x.to(DType::f32).to_vector()) REQUIRE(std::isfinite(value));
}

}  // namespace

TEST_CASE("cuda: on a GPU, attention on tensor cores is the CPU's at the edges of tiles") {
  if (skipped()) return;
  for (std::int64_t size : {32, 64})
    check_on_device({{1, 16, 33}, {1, 15, 17}, 1, size, 0.1f, true, DType::bf16});
}

TEST_CASE("cuda: on a GPU, attention finds the sentences of its tiles among more than 32 squared") {
  if (skipped()) return;
  std::vector<std::int32_t> lengths(1100);
  for (std::size_t i = 0; i < lengths.size(); i += 63) lengths[i] = static_cast<int>(i % 19) + 1;
  lengths.back() = 17;
  check_on_device({lengths, {}, 1, 32, 0.1f, true, DType::bf16});
  // All tokens in the first 40: their slots are more than 16 sentences from the even distribution.
  std::fill(lengths.begin(), lengths.end(), 0);
  std::fill_n(lengths.begin(), 40, 16);
  check_on_device({lengths, {}, 1, 32, 0.1f, true, DType::bf16});
}

TEST_CASE("cuda: on a GPU, the gradient of a sentence has the same bits alone and padded") {
  if (skipped()) return;
  const std::vector<std::int32_t> lengths{70, 9, 64, 200}, attended{66, 9, 50, 131};
  const AttentionInputs all =
      on(default_device(), inputs_of({lengths, attended, 2, 64, 0.1f, true, DType::bf16}));
  // The padding's gradient is 0.
  std::int32_t begin = 0;
  for (std::size_t s = 0; s < lengths.size(); begin += lengths[s++])
    if (attended[s] < lengths[s]) all.grad.slice(begin + attended[s], begin + lengths[s]).fill_(0);
  const AttentionResults together = by_op(all);
  begin = 0;
  for (std::size_t s = 0; s < lengths.size(); begin += lengths[s++]) {
    const auto at = static_cast<std::int64_t>(s);
    const std::int32_t end = begin + attended[s];
    AttentionInputs one = all;
    one.qkv = all.qkv.slice(begin, end), one.grad = all.grad.slice(begin, end);
    one.cu_seqlens = tensor(std::vector<std::int32_t>{0, attended[s]}, {2}).to(default_device());
    one.options.sentence_ids = all.options.sentence_ids.slice(at, at + 1);
    one.options.lengths = Tensor();
    CHECK(by_op(one).grad_qkv.to_vector() == together.grad_qkv.slice(begin, end).to_vector());
  }
}

TEST_CASE("cuda: on a GPU, attention in blocks is the CPU's at the edges of 64 tokens") {
  if (skipped()) return;
  for (std::int64_t size : {32, 64}) {
    check_on_device({{64, 65, 3, 129, 128}, {}, 2, size, 0.1f, true, DType::bf16});
    check_on_device({{65, 200, 66}, {64, 130, 65}, 1, size, 0, false, DType::bf16});
  }
  check_on_device({{384}, {}, 1, 64, 0.1f, true, DType::bf16});
}

TEST_CASE("cuda: on a GPU, a sentence has the same bits alone, among others and with padding") {
  if (skipped()) return;
  // Few tokens a sentence, and many: warps and blocks come in another order then.
  for (const std::vector<std::int32_t>& lengths :
       {std::vector<std::int32_t>{65, 9, 1, 64, 2, 16, 8}, {64, 130, 80, 65}}) {
    const AttentionInputs in =
        on(default_device(), inputs_of({lengths, {}, 2, 64, 0.1f, true, DType::bf16}));
    const Tensor out = attention(in.qkv, in.cu_seqlens, in.options).out;
    std::int64_t first = 0;
    for (std::size_t s = 0; s < lengths.size(); first += lengths[s++]) {
      const auto place = static_cast<std::int64_t>(s);
      CAPTURE(lengths[s]);
      AttentionOptions own = in.options;
      own.sentence_ids = own.sentence_ids.slice(place, place + 1);
      own.lengths = tensor<std::int32_t>({lengths[s]}).to(default_device());
      for (const std::int32_t padding : {0, 30, 100}) {
        const Tensor more = normal({padding, in.qkv.size(1)}).to(in.qkv.dtype());
        const Tensor qkv =
            concat({in.qkv.slice(first, first + lengths[s]), more.to(default_device())}, 0);
        const Tensor ends = tensor<std::int32_t>({0, lengths[s] + padding}).to(default_device());
        CHECK(attention(qkv, ends, own).out.slice(0, lengths[s]).to_vector() ==
              out.slice(first, first + lengths[s]).to_vector());
      }
    }
  }
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

TEST_CASE("cuda: on a GPU, a bias of distances that no sentence has leaves the gradients finite") {
  if (skipped()) return;
  for (std::int64_t size : {32, 64}) {
    const AttentionInputs in = inputs_of({{3, 2}, {}, 2, size, 0.1f, true, DType::bf16});
    Tensor bias = in.options.relative_bias;
    // Distances of -2 to 2 are in buckets 0, 1, 2, 17 and 18.
    for (std::int64_t bucket = 0; bucket < 32; ++bucket)
      if (bucket % 16 > 2) bias[bucket].fill_(std::numeric_limits<float>::quiet_NaN());
    check_finite(in);
  }
}

// The product of two rows overflows, and dropout removes it. Tiles also multiply rows beyond the
// last query and key, which it may keep.
TEST_CASE("cuda: on a GPU, an overflow that dropout removes leaves the gradients finite") {
  if (skipped()) return;
  for (std::int64_t size : {32, 64})
    for (std::int32_t attended : {5, 7}) {
      AttentionInputs in = inputs_of({{7}, {attended}, 1, size, 0.5f, true, DType::bf16});
      const std::int64_t last = attended - 1;
      in.qkv[last].slice(2 * size, 3 * size).fill_(1e20);
      in.grad[6].fill_(1e20);
      AttentionInputs wide = in;
      wide.qkv = in.qkv.to(DType::f64), wide.grad = in.grad.to(DType::f64);
      wide.options.relative_bias = in.options.relative_bias.to(DType::f64);
      // Only a kept weight makes the output of query 6 large.
      while (by_op(wide).out[6].to_vector<double>()[0] > 1e10)
        in.options.dropout.seed = ++wide.options.dropout.seed;
      check_finite(in);
    }
}
