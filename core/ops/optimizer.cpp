#include "ringlet/core/ops/optimizer.h"

#include <cmath>

namespace ringlet {

constinit Kernel<AdamWArgs> adamw_kernel("adamw");
constinit Kernel<SGDArgs> sgd_kernel("sgd");
constinit Kernel<SquaredNormArgs> squared_norm_kernel("squared_norm");

namespace {

void check_state(const char* op, const char* what, const Tensor& param, const Tensor& state) {
  check_same_device(op, param, state);
  check_same_dtype(op, param, state);
  RINGLET_CHECK_EQ(state.numel(), param.numel(), "[", op, "] elements of ", what);
}

void check_dtype(const char* op, const Tensor& param) {
  if (param.dtype() != DType::f32 && param.dtype() != DType::f64)
    unsupported_dtype(op, param.dtype());
}

}  // namespace

void adamw_(Tensor& param, const Tensor& grad, Tensor& exp_avg, Tensor& exp_avg_sq,
            const AdamWStep& step) {
  check_dtype("adamw", param);
  check_state("adamw", "grad", param, grad);
  check_state("adamw", "exp_avg", param, exp_avg);
  check_state("adamw", "exp_avg_sq", param, exp_avg_sq);
  RINGLET_CHECK(step.step >= 1, "[adamw] steps count from 1, not ", step.step);
  if (param.numel() == 0) return;
  const auto steps = static_cast<double>(step.step);
  adamw_kernel({param.mutable_bytes(), grad.bytes(), exp_avg.mutable_bytes(),
                exp_avg_sq.mutable_bytes(), param.numel(), step.lr, step.beta1, step.beta2,
                step.eps, step.weight_decay, 1 - std::pow(step.beta1, steps),
                1 - std::pow(step.beta2, steps), step.grad_scale, param.dtype()},
               param.device());
}

void sgd_(Tensor& param, const Tensor& grad, Tensor& momentum_buffer, const SGDStep& step) {
  check_dtype("sgd", param);
  check_state("sgd", "grad", param, grad);
  RINGLET_CHECK_EQ(momentum_buffer.defined(), step.momentum != 0,
                   "[sgd] a momentum buffer and momentum ", step.momentum);
  RINGLET_CHECK(!step.nesterov || step.momentum != 0, "[sgd] nesterov needs momentum");
  if (momentum_buffer.defined()) check_state("sgd", "momentum_buffer", param, momentum_buffer);
  if (param.numel() == 0) return;
  sgd_kernel(
      {param.mutable_bytes(), grad.bytes(), momentum_buffer.mutable_bytes(), param.numel(), step.lr,
       step.momentum, step.weight_decay, step.grad_scale, step.nesterov, param.dtype()},
      param.device());
}

Tensor squared_norm_blocks(const Tensor& x) {
  Tensor out = empty({(x.numel() + kNormBlock - 1) / kNormBlock}, DType::f64, x.device());
  if (x.numel() > 0)
    squared_norm_kernel({out.mutable_data<double>(), x.bytes(), x.numel(), x.dtype()}, x.device());
  return out;
}

}  // namespace ringlet
