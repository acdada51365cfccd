// One step of an optimizer over a run of parameters, all in one pass. Formulas, names and defaults
// are those of torch.optim.AdamW and torch.optim.SGD. An element's bits depend on its own values
// alone, so a step may be cut anywhere and shared out among ranks.
#pragma once

#include "ringlet/core/kernel.h"
#include "ringlet/core/tensor.h"

namespace ringlet {

/// g = grad_scale * grad;  param *= 1 - lr * weight_decay
/// m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
/// param -= lr / bias_correction1 * m / (sqrt(v / bias_correction2) + eps)
struct AdamWArgs {
  void* param;       // (n)
  const void* grad;  // (n)
  void* exp_avg;     // (n)
  void* exp_avg_sq;  // (n)
  std::int64_t n;
  double lr;
  double beta1;
  double beta2;
  double eps;
  double weight_decay;
  double bias_correction1;  // 1 - beta1^step
  double bias_correction2;  // 1 - beta2^step
  double grad_scale;        // 1, or the factor that clipping gives
  DType dtype;              // f32 or f64
};
extern Kernel<AdamWArgs> adamw_kernel;

/// g = grad_scale * grad + weight_decay * param;  b = momentum b + g
/// param -= lr * (nesterov ? g + momentum b : momentum ? b : g)
struct SGDArgs {
  void* param;            // (n)
  const void* grad;       // (n)
  void* momentum_buffer;  // (n), zeros at first; null without momentum
  std::int64_t n;
  double lr;
  double momentum;
  double weight_decay;
  double grad_scale;
  bool nesterov;
  DType dtype;  // f32 or f64
};
extern Kernel<SGDArgs> sgd_kernel;

/// A gradient's squared norm adds up in blocks of this many elements from the start of x, and a
/// shard that begins at a multiple of it finds the same partial sums as the whole.
inline constexpr std::int64_t kNormBlock = 4096;

struct SquaredNormArgs {
  double* out;    // (ceil(n / kNormBlock))
  const void* x;  // (n)
  std::int64_t n;
  DType dtype;
};
extern Kernel<SquaredNormArgs> squared_norm_kernel;

struct AdamWStep {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  std::int64_t step = 1;  // counted from 1
  double grad_scale = 1;
};
/// All four f32 or f64 and of the same numel.
void adamw_(Tensor& param, const Tensor& grad, Tensor& exp_avg, Tensor& exp_avg_sq,
            const AdamWStep& step);

struct SGDStep {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double grad_scale = 1;
};
/// `momentum_buffer` holds zeros at first; it is undefined exactly when momentum is 0.
void sgd_(Tensor& param, const Tensor& grad, Tensor& momentum_buffer, const SGDStep& step);

/// The sums of squares of x's blocks, each in f64 and in one fixed order: (ceil(numel / 4096)),
/// f64. Add them in block order for bits that no sharding changes.
Tensor squared_norm_blocks(const Tensor& x);

}  // namespace ringlet
