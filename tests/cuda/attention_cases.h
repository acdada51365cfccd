// Attention by its definition in f64, with a bound on the rounding error of each number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/core/ops/attention.h"

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

/// The inputs of a case, the same in every run, on the CPU.
struct AttentionInputs {
  Tensor qkv, grad;   // (T, 3 heads d), (T, heads d)
  Tensor cu_seqlens;  // (S + 1)
  AttentionOptions options;
};
AttentionInputs inputs_of(const AttentionCase& c);

/// All results of forward and backward.
struct AttentionResults {
  Tensor out, lse, grad_qkv;
  Tensor grad_bias;  // (32, heads), defined if the case is biased
};
/// By the op, with the kernels of the inputs' device.
AttentionResults by_op(const AttentionInputs& in);

/// The largest |a - b| / bound over all elements of the named result, b by the CPU in f64; correct
/// if at most 1. `weights` is the unit roundoff of P and the gradient of the scores, which are
/// rounded before they are multiplied.
struct AttentionErrors {
  double out, lse, grad_qkv, grad_bias;
};
AttentionErrors errors_of(const AttentionCase& c, const AttentionInputs& in,
                          const AttentionResults& results, double weights);
void check_errors(const AttentionErrors& errors);

AttentionInputs on(Device device, const AttentionInputs& in);
/// Checks the results of the op on the default device.
void check_on_device(const AttentionCase& c);

}  // namespace ringlet
