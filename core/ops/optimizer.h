// One step of an optimizer over a run of parameters, in one pass. Formulas, names and defaults are
// those of torch.optim.AdamW and torch.optim.SGD. An element's bits depend only on its values and
// its segment's scalars: a step may be split anywhere, also among ranks. Values that change from
// step to step are read from the memory of the parameters' device, so the same calls work for any
// step.
#pragma once

#include <cstdint>
#include <vector>

#include "ringlet/core/base/host_device.h"
#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

// The elements of a run of parameters that an optimizer's step updates in the same way: a table in
// device memory. One kernel call then updates a whole arena, with any mix of segments.

/// Elements [begin, end) of a run.
struct StepSegment {
  std::int64_t begin;
  std::int64_t end;

  friend bool operator==(const StepSegment&, const StepSegment&) = default;
};

/// Ordered and disjoint; elements in no segment are not updated.
struct StepSegments {
  const StepSegment* table;  // (count)
  std::int64_t count;

  /// The first segment that ends after `element`; count if there is none.
  RINGLET_HOST_DEVICE std::int64_t first_after(std::int64_t element) const {
    std::int64_t low = 0, high = count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (table[middle].end > element)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
};

/// Calls body(segment, begin, end) for the part of elements [begin, end) in each segment.
template <class Body>
RINGLET_HOST_DEVICE void for_segments(const StepSegments& segments, std::int64_t begin,
                                      std::int64_t end, Body&& body) {
  for (std::int64_t i = segments.first_after(begin); i < segments.count; ++i) {
    const StepSegment segment = segments.table[i];
    if (segment.begin >= end) return;
    body(i, segment.begin < begin ? begin : segment.begin, segment.end < end ? segment.end : end);
  }
}

/// g = grad_scale * grad;  param *= 1 - lr * weight_decay
/// m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
/// param -= lr / bias_correction1 * m / (sqrt(v / bias_correction2) + eps)
struct AdamWArgs {
  void* param;       // (n)
  const void* grad;  // (n)
  void* exp_avg;     // (n)
  void* exp_avg_sq;  // (n)
  void* rounded;     // (n) bf16: the updated elements of an f32 param, rounded; may be null
  /// (ceil(n / kNormBlock)) squared norms of grad's blocks: where one is 0, all elements are zeros
  /// and need not be read. May be null; null for f64, where small squares are 0.
  const double* blocks;
  std::int64_t n;
  StepSegments segments;
  /// (segments, 4): lr, weight_decay, the bias corrections 1 - beta1^step and 1 - beta2^step
  const double* scalars;
  const double* grad_scale;  // (1): 1, or the factor from clipping; NaN: nothing is updated
  double beta1;
  double beta2;
  double eps;
  DType dtype;  // f32 or f64
};
extern OpKernel<AdamWArgs> adamw_kernel;

/// g = grad_scale * grad + weight_decay * param;  b = momentum b + g
/// param -= lr * (nesterov ? g + momentum b : momentum ? b : g)
struct SGDArgs {
  void* param;            // (n)
  const void* grad;       // (n)
  void* momentum_buffer;  // (n), zeros at first; null without momentum
  void* rounded;          // (n), as in AdamWArgs
  std::int64_t n;
  StepSegments segments;
  const double* scalars;     // (segments, 2): lr, weight_decay
  const double* grad_scale;  // (1), as in AdamWArgs
  double momentum;
  bool nesterov;
  DType dtype;  // f32 or f64
};
extern OpKernel<SGDArgs> sgd_kernel;

/// A gradient's squared norm is summed in blocks of this many elements from the start of x. A shard
/// that starts at a multiple of it has the same partial sums as the whole.
inline constexpr std::int64_t kNormBlock = 4096;

struct SquaredNormArgs {
  double* out;    // (ceil(n / kNormBlock))
  const void* x;  // (n)
  std::int64_t n;
  DType dtype;
};
extern OpKernel<SquaredNormArgs> squared_norm_kernel;

/// norm = sqrt(sum of blocks); factor = max_norm > 0 ? min(1, max_norm / (norm + 1e-6)) : 1. With
/// `check_finite`, a norm that is not finite has factor NaN, and block is the first that is not
/// finite; else block is n. With `check_finite`, a NaN factor already in `out` keeps all three. The
/// code is in core/ops/clip.h.
struct ClipFactorArgs {
  double* out;           // (3): norm, factor, block
  const double* blocks;  // (n)
  std::int64_t n;        // may be 0
  double max_norm;
  bool check_finite;
};
extern OpKernel<ClipFactorArgs> clip_factor_kernel;

/// The values that change from step to step, f64, on the parameters' device.
struct StepScalars {
  Tensor values;      // of each segment; AdamW: adamw_scalars(); SGD: lr, weight_decay
  Tensor grad_scale;  // one element; NaN: nothing is updated
  Tensor segments;    // (segments, 2) i64: a StepSegment each
};
/// Uploads the values for one segment, a run of any length.
StepScalars step_scalars(const std::vector<double>& values, double grad_scale = 1,
                         Device device = default_device());
/// (segments, 2) i64.
Tensor segment_table(const std::vector<StepSegment>& segments, Device device = default_device());

struct AdamWConstants {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};
/// (4): lr, weight_decay, and the bias corrections of step `step`, counted from 1.
std::vector<double> adamw_scalars(double lr, double weight_decay, std::int64_t step,
                                  const AdamWConstants& constants = {});
/// The first four are f32 or f64 with the same numel. `rounded` (numel) bf16, or undefined,
/// receives the updated elements of param, rounded; param is f32 then. `blocks`, or undefined, are
/// grad's squared_norm_blocks(); they save reading the parts of grad that are zeros.
void adamw_(Tensor& param, const Tensor& grad, Tensor& exp_avg, Tensor& exp_avg_sq,
            const StepScalars& scalars, const AdamWConstants& constants = {}, Tensor rounded = {},
            const Tensor& blocks = {});

struct SGDConstants {
  double momentum = 0;
  bool nesterov = false;
};
/// `momentum_buffer` starts with zeros; it is undefined if and only if momentum is 0. `rounded` as
/// in adamw_.
void sgd_(Tensor& param, const Tensor& grad, Tensor& momentum_buffer, const StepScalars& scalars,
          const SGDConstants& constants = {}, Tensor rounded = {});

/// The sums of squares of x's blocks, each in one fixed order: (ceil(numel / 4096)) f64.
Tensor squared_norm_blocks(const Tensor& x);
void squared_norm_blocks_into(Tensor& out, const Tensor& x);

/// (3) f64: norm, factor, block. `blocks` (n) f64 are the block sums of all gradients; the norm
/// adds them in a fixed order that no sharding changes. The factor clips the norm to max_norm (0:
/// no clipping), and block is n. With `check_finite`, a norm that is not finite gives the factor
/// NaN and the first block that is not finite. A step with factor NaN updates nothing.
Tensor clip_factor(const Tensor& blocks, double max_norm, bool check_finite);
/// With `check_finite`, an `out` with factor NaN stays unchanged. Later steps then update nothing
/// either, until the host has read it and writes another factor.
void clip_factor_into(Tensor& out, const Tensor& blocks, double max_norm, bool check_finite);

}  // namespace ringlet
