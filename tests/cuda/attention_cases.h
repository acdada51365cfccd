// Attention by its definition in f64, with a bound for what rounding may do to each number; and the
// device's code for it, run on the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/fill.h"

namespace ringlet {

struct AttentionCase {
  std::vector<std::int32_t> lengths;   // tokens of the sentences
  std::vector<std::int32_t> attended;  // empty: all
  std::int64_t heads;
  std::int64_t size;
  float p;
  bool biased;
  DType dtype;

  std::int64_t tokens() const;
};

/// What a case runs on, the same every time, on the CPU.
struct AttentionInputs {
  Tensor qkv, grad;   // (T, 3 heads d), (T, heads d)
  Tensor cu_seqlens;  // (S + 1)
  AttentionOptions options;
};
AttentionInputs inputs_of(const AttentionCase& c);

/// Everything that forward and backward compute.
struct AttentionResults {
  Tensor out, lse, grad_qkv;
  Tensor grad_bias;  // (32, heads), defined where the case is biased
};
/// By the op, with the kernels of the device that the inputs lie on.
AttentionResults by_op(const AttentionInputs& in);
/// By the device's code: tensor cores or rows.
AttentionResults by_tiles(const AttentionInputs& in);
AttentionResults by_rows(const AttentionInputs& in);

/// The largest |a - b| / bound over all elements of `name`d results, b by the CPU in f64: at most 1
/// is right. `weights` is the unit roundoff that P and the gradient of the scores are rounded with
/// before they are multiplied.
struct AttentionErrors {
  double out, lse, grad_qkv, grad_bias;
};
AttentionErrors errors_of(const AttentionCase& c, const AttentionInputs& in,
                          const AttentionResults& results, double weights);
void check_errors(const AttentionErrors& errors);

}  // namespace ringlet
