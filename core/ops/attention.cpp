#include "ringlet/core/ops/attention.h"

#include <cmath>

#include "ringlet/core/ops/bad_input.h"
#include "ringlet/core/ops/checks.h"
#include "ringlet/core/ops/relative_position.h"

namespace ringlet {

constinit OpKernel<AttentionArgs> attention_kernel("attention");
constinit OpKernel<AttentionBackwardArgs> attention_backward_kernel("attention_backward");

namespace {

AttentionShape shape_of(const Tensor& qkv, const Tensor& cu_seqlens,
                        const AttentionOptions& options) {
  const std::int64_t heads = options.heads;
  RINGLET_CHECK(heads > 0 && qkv.dim() == 2 && qkv.size(1) > 0 && qkv.size(1) % (3 * heads) == 0,
                "[attention] qkv is ", qkv.shape(), ", expected (T, 3 x ", heads, " heads x d)");
  check_same_device("attention", qkv, cu_seqlens);
  check_cu_seqlens("attention", cu_seqlens, qkv.size(0));
  AttentionShape shape{};
  shape.qkv = qkv.bytes();
  shape.cu_seqlens = cu_seqlens.data<std::int32_t>();
  shape.tokens = qkv.size(0);
  shape.sentences = cu_seqlens.numel() - 1;
  shape.heads = heads;
  shape.first_head = options.first_head;
  shape.head_size = qkv.size(1) / (3 * heads);
  shape.scale = 1 / std::sqrt(static_cast<double>(shape.head_size));
  shape.dropout = weight_dropout("attention", options.dropout);
  shape.dtype = qkv.dtype();
  if (options.relative_bias) {
    check_parameter("attention", "relative bias", options.relative_bias, {kRelativeBuckets, heads},
                    qkv);
    shape.relative_bias = options.relative_bias.bytes();
  }
  if (options.sentence_ids) {
    check_tensor("attention", "sentence ids", options.sentence_ids, {shape.sentences}, DType::i32,
                 qkv.device());
    shape.sentence_ids = options.sentence_ids.data<std::int32_t>();
  }
  if (options.lengths) {
    check_lengths("attention", options.lengths, cu_seqlens);
    shape.lengths = options.lengths.data<std::int32_t>();
  }
  return shape;
}

}  // namespace

void check_cu_seqlens(const char* op, const Tensor& cu_seqlens, std::int64_t tokens) {
  RINGLET_CHECK(cu_seqlens.dim() == 1 && cu_seqlens.numel() > 0, "[", op, "] cu_seqlens is ",
                cu_seqlens.shape(), ", expected (sentences + 1)");
  RINGLET_CHECK_EQ(cu_seqlens.dtype(), DType::i32, "[", op, "] dtype of cu_seqlens");
  const SentenceBounds bounds{cu_seqlens.data<std::int32_t>(), nullptr, cu_seqlens.numel() - 1,
                              tokens};
  RINGLET_CHECK(bounds.sentences > 0 || tokens == 0, "[", op, "] ", tokens,
                " tokens of no sentence");
  if (cu_seqlens.device().type != DeviceType::cpu) return;
  for (std::int64_t s = 0; s < bounds.sentences; ++s)
    if (!bounds.hold(s))
      fail_bad_input({BadInputKind::sentence, s, bounds.cu_seqlens[s], bounds.cu_seqlens[s + 1]});
}

void check_lengths(const char* op, const Tensor& lengths, const Tensor& cu_seqlens) {
  check_tensor(op, "lengths", lengths, {cu_seqlens.numel() - 1}, DType::i32, cu_seqlens.device());
  const std::int32_t* real = lengths.data<std::int32_t>();
  const std::int32_t* at = cu_seqlens.data<std::int32_t>();
  if (lengths.device().type != DeviceType::cpu) return;
  for (std::int64_t s = 0; s < lengths.numel(); ++s)
    RINGLET_CHECK(real[s] > 0 && real[s] <= at[s + 1] - at[s], "[", op, "] ", real[s],
                  " real tokens of ", at[s + 1] - at[s], " in sentence ", s);
}

AttentionOutput attention(const Tensor& qkv, const Tensor& cu_seqlens,
                          const AttentionOptions& options) {
  AttentionArgs args{shape_of(qkv, cu_seqlens, options), nullptr, nullptr};
  const AttentionShape& shape = args.shape;
  AttentionOutput out{
      empty({shape.tokens, shape.heads * shape.head_size}, qkv.dtype(), qkv.device()),
      empty({shape.heads, shape.tokens}, parameter_dtype(qkv.dtype()), qkv.device())};
  args.out = out.out.mutable_bytes();
  args.lse = out.lse.mutable_bytes();
  if (shape.tokens > 0) attention_kernel(args, qkv.device());
  return out;
}

Tensor attention_backward(const Tensor& grad, const Tensor& qkv, const AttentionOutput& forward,
                          const Tensor& cu_seqlens, const AttentionOptions& options,
                          GradientSink grad_relative_bias) {
  AttentionBackwardArgs args{};
  args.shape = shape_of(qkv, cu_seqlens, options);
  const AttentionShape& shape = args.shape;
  const auto check_output = [&](const char* which, const Tensor& x) {
    check_tensor("attention", which, x, {shape.tokens, shape.heads * shape.head_size}, qkv.dtype(),
                 qkv.device());
  };
  check_output("gradient", grad);
  check_output("output", forward.out);
  check_parameter("attention", "lse", forward.lse, {shape.heads, shape.tokens}, qkv);
  Tensor grad_qkv = empty_like(qkv);
  if (grad_relative_bias) {
    check_parameter("attention", "relative bias", grad_relative_bias.out,
                    {kRelativeBuckets, shape.heads}, qkv);
    args.grad_relative_bias = grad_relative_bias.bytes();
    args.beta = grad_relative_bias.beta;
  }
  args.grad_qkv = grad_qkv.mutable_bytes();
  args.grad = grad.bytes();
  args.out = forward.out.bytes();
  args.lse = forward.lse.bytes();
  attention_backward_kernel(args, qkv.device());
  return grad_qkv;
}

}  // namespace ringlet
