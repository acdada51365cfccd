// Multi-head self-attention over packed sentences: every token attends to the tokens of its own
// sentence, of any length and without padding.
//   P = softmax(Q K^T / sqrt(d) + relative bias),  out = dropout(P) V
// Activations f32, f64 or bf16; the relative bias, its gradient and the log-sum-exp are f32 (f64).
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/ops/gradient_sink.h"
#include "ringlet/core/ops/random.h"

namespace ringlet {

/// The arguments that forward and backward share.
struct AttentionShape {
  const void* qkv;                   // (T, 3 heads d): q, k, v side by side
  const void* relative_bias;         // (32, heads), may be null
  const std::int32_t* cu_seqlens;    // (S + 1)
  const std::int32_t* sentence_ids;  // (S), null means 0..S-1
  const std::int32_t* lengths;       // (S) tokens that are attended to, null means all
  std::int64_t tokens;
  std::int64_t sentences;
  std::int64_t heads;
  std::int64_t first_head;  // the first one's number in dropout's counters
  std::int64_t head_size;
  double scale;         // of the scores, 1 / sqrt(d)
  DropoutMask dropout;  // of P
  DType dtype;
};

struct AttentionArgs {
  AttentionShape shape;
  void* out;  // (T, heads d)
  void* lse;  // (heads, T)
};
extern OpKernel<AttentionArgs> attention_kernel;

struct AttentionBackwardArgs {
  AttentionShape shape;
  void* grad_qkv;            // (T, 3 heads d)
  void* grad_relative_bias;  // (32, heads), may be null
  double beta;               // of grad_relative_bias
  const void* grad;          // (T, heads d)
  const void* out;           // (T, heads d), the forward's
  const void* lse;           // (heads, T)
};
extern OpKernel<AttentionBackwardArgs> attention_backward_kernel;

struct AttentionOptions {
  std::int64_t heads = 1;
  Tensor relative_bias{};  // (32, heads) by relative_position_bucket, undefined where there is none
  DropoutKey dropout{};    // of P, counted by (sentence id, head, query, key)
  Tensor sentence_ids{};   // (S) i32, undefined: 0..S-1
  /// (S) i32: the number of real tokens at the start of each sentence. No token attends to the
  /// rest, which is padding. Undefined: all are real.
  Tensor lengths{};
  /// The number of the first head here, if a layer's heads are divided among calls.
  std::int64_t first_head = 0;
};

struct AttentionOutput {
  Tensor out;  // (T, heads d)
  /// (heads, T) log of the sum of exp(scores). Its rounding error grows with the scores, and so do
  /// the errors of gradients, as in PyTorch's fused attention.
  Tensor lse;
};
/// qkv (T, 3 heads d), cu_seqlens (S + 1) i32: 0, then where each sentence ends.
AttentionOutput attention(const Tensor& qkv, const Tensor& cu_seqlens,
                          const AttentionOptions& options);
/// Returns grad_qkv. P is computed again from the forward's lse; the shares of the sentences in the
/// gradient of the relative bias are added in order.
Tensor attention_backward(const Tensor& grad, const Tensor& qkv, const AttentionOutput& forward,
                          const Tensor& cu_seqlens, const AttentionOptions& options,
                          GradientSink grad_relative_bias);

/// Throws unless cu_seqlens is (S + 1) i32, starts at 0, never falls and ends at `tokens`. On a GPU
/// this checks the shape, and the kernels report the values (bad_input.h).
void check_cu_seqlens(const char* op, const Tensor& cu_seqlens, std::int64_t tokens);
/// Throws "[op] ..." unless lengths is (S) i32, each 1 to the tokens of its sentence.
void check_lengths(const char* op, const Tensor& lengths, const Tensor& cu_seqlens);

}  // namespace ringlet
