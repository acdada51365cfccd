// Runs the device code of attention on the host, warp by warp.
#include <vector>

#include "attention_cases.h"
#include "ringlet/cuda/attention_backward_keys.h"
#include "ringlet/cuda/attention_backward_queries.h"
#include "ringlet/cuda/attention_backward_rows.h"
#include "ringlet/cuda/attention_forward.h"
#include "warp_emulation.h"

namespace ringlet {
namespace {

using cuda::AttentionItem;
using cuda::AttentionWork;
using cuda::EmulatedWarp;

template <int kHead>
struct Tiles {
  using S = float;
  static void forward(const AttentionArgs& args, const AttentionItem& item, S* bias) {
    cuda::attention_forward_tile<kHead>(EmulatedWarp(), args, item, bias);
  }
  static void queries(const AttentionBackwardArgs& args, const AttentionWork& work,
                      const AttentionItem& item, cuda::QueryPassMemory<S>& memory) {
    cuda::attention_query_pass<kHead>(EmulatedWarp(), args, work, item, memory);
  }
  static void keys(const AttentionBackwardArgs& args, const AttentionWork& work,
                   const AttentionItem& item, S* bias) {
    cuda::attention_key_pass<kHead>(EmulatedWarp(), args, work, item, bias);
  }
};

template <class T, class S_>
struct Rows {
  using S = S_;
  static void forward(const AttentionArgs& args, const AttentionItem& item, S* bias) {
    cuda::attention_forward_rows<T>(EmulatedWarp(), args, item, bias);
  }
  static void queries(const AttentionBackwardArgs& args, const AttentionWork& work,
                      const AttentionItem& item, cuda::QueryPassMemory<S>& memory) {
    cuda::attention_query_rows<T>(EmulatedWarp(), args, work, item, memory);
  }
  static void keys(const AttentionBackwardArgs& args, const AttentionWork& work,
                   const AttentionItem& item, S* bias) {
    cuda::attention_key_rows<T>(EmulatedWarp(), args, work, item, bias);
  }
};

template <class Body>
void for_items(const AttentionShape& shape, Body body) {
  const std::int64_t items = cuda::attention_slots(shape) * shape.heads;
  for (std::int64_t i = 0; i < items; ++i) body(cuda::attention_item(shape, i));
}

// The kernels' Args for `in`, as the op would set them.
AttentionShape shape_of(const AttentionInputs& in) {
  AttentionShape shape{};
  shape.qkv = in.qkv.bytes();
  shape.cu_seqlens = in.cu_seqlens.data<std::int32_t>();
  shape.tokens = in.qkv.size(0);
  shape.sentences = in.cu_seqlens.numel() - 1;
  shape.heads = in.options.heads;
  shape.head_size = in.qkv.size(1) / (3 * shape.heads);
  shape.scale = 1 / std::sqrt(static_cast<double>(shape.head_size));
  shape.dropout = dropout_of("attention", in.options.dropout);
  shape.dtype = in.qkv.dtype();
  if (in.options.relative_bias) shape.relative_bias = in.options.relative_bias.bytes();
  shape.sentence_ids = in.options.sentence_ids.data<std::int32_t>();
  if (in.options.lengths) shape.lengths = in.options.lengths.data<std::int32_t>();
  return shape;
}

template <class Code, class S = typename Code::S>
AttentionResults run(const AttentionInputs& in) {
  const AttentionShape shape = shape_of(in);
  const DType wide = dtype_of<S>();
  AttentionResults results;
  results.out = full(in.grad.shape(), 77, in.grad.dtype());
  results.lse = full({shape.heads, shape.tokens}, 77, wide);
  results.grad_qkv = full(in.qkv.shape(), 77, in.qkv.dtype());
  const AttentionArgs args{shape, results.out.mutable_bytes(), results.lse.mutable_bytes()};
  for_items(shape, [&](const AttentionItem& item) {
    if (item.rows == 0) return;
    std::vector<S> bias(cuda::kDistances, NAN);
    Code::forward(args, item, bias.data());
  });

  const std::int64_t rows = cuda::attention_slots(shape) * shape.heads;
  std::vector<S> buckets(static_cast<std::size_t>(rows * kRelativeBuckets), NAN);
  std::vector<cuda::QuerySums<S>> queries(static_cast<std::size_t>(shape.heads * shape.tokens),
                                          {S{NAN}, S{NAN}});
  AttentionBackwardArgs backward{};
  backward.shape = shape;
  backward.grad_qkv = results.grad_qkv.mutable_bytes();
  backward.grad = in.grad.bytes();
  backward.lse = results.lse.bytes();
  const AttentionWork work{queries.data(), in.options.relative_bias ? buckets.data() : nullptr};
  for_items(shape, [&](const AttentionItem& item) {
    if (item.rows == 0) return cuda::skip_query_pass<S>(EmulatedWarp(), work, item);
    cuda::QueryPassMemory<S> memory;
    for (S* part : {memory.bias, memory.by_distance}) std::fill_n(part, cuda::kDistances, S{NAN});
    std::fill_n(&memory.skewed[0][0], 16 * 32, S{NAN});
    Code::queries(backward, work, item, memory);
  });
  for_items(shape, [&](const AttentionItem& item) {
    if (item.rows == 0) return;
    std::vector<S> bias(cuda::kDistances, NAN);
    Code::keys(backward, work, item, bias.data());
  });
  if (!in.options.relative_bias) return results;
  results.grad_bias = zeros({kRelativeBuckets, shape.heads}, wide);
  S* sums = results.grad_bias.template mutable_data<S>();
  const std::int64_t slots = cuda::attention_slots(shape);
  for (std::int64_t head = 0; head < shape.heads; ++head)
    for (int bucket = 0; bucket < kRelativeBuckets; ++bucket)
      for (int part = 0; part < cuda::kBucketParts; ++part)
        sums[bucket * shape.heads + head] +=
            cuda::sum_buckets(buckets.data(), slots, head, bucket, part);
  return results;
}

}  // namespace

AttentionResults by_tiles(const AttentionInputs& in) {
  return in.qkv.size(1) / (3 * in.options.heads) == 32 ? run<Tiles<32>>(in) : run<Tiles<64>>(in);
}
AttentionResults by_rows(const AttentionInputs& in) {
  if (in.qkv.dtype() == DType::f64) return run<Rows<double, double>>(in);
  return in.qkv.dtype() == DType::f32 ? run<Rows<float, float>>(in)
                                      : run<Rows<bfloat16, float>>(in);
}

}  // namespace ringlet
