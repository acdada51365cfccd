#include "ringlet/core/ops/optimizer.h"

#include <cmath>
#include <limits>

namespace ringlet {

constinit OpKernel<AdamWArgs> adamw_kernel("adamw");
constinit OpKernel<SGDArgs> sgd_kernel("sgd");
constinit OpKernel<SquaredNormArgs> squared_norm_kernel("squared_norm");
constinit OpKernel<ClipFactorArgs> clip_factor_kernel("clip_factor");

namespace {

constexpr std::int64_t kSegmentWidth = sizeof(StepSegment) / sizeof(std::int64_t);

void check_state(const char* op, const char* what, const Tensor& param, const Tensor& state) {
  check_same_device(op, param, state);
  check_same_dtype(op, param, state);
  RINGLET_CHECK_EQ(state.numel(), param.numel(), "[", op, "] elements of ", what);
}

void check_f64(const char* op, const char* what, const Tensor& tensor, std::int64_t numel) {
  RINGLET_CHECK_EQ(tensor.dtype(), DType::f64, "[", op, "] dtype of ", what);
  RINGLET_CHECK_EQ(tensor.numel(), numel, "[", op, "] elements of ", what);
}

// The arguments that all optimizers have; `width` scalars for each segment.
void check_step(const char* op, const Tensor& param, const Tensor& grad, const Tensor& rounded,
                const StepScalars& scalars, std::int64_t width) {
  if (param.dtype() != DType::f32 && param.dtype() != DType::f64)
    unsupported_dtype(op, param.dtype());
  check_state(op, "grad", param, grad);
  if (rounded) {
    check_same_device(op, param, rounded);
    RINGLET_CHECK(param.dtype() == DType::f32 && rounded.dtype() == DType::bf16, "[", op, "] ",
                  param.dtype(), " parameters are not rounded to ", rounded.dtype());
    RINGLET_CHECK_EQ(rounded.numel(), param.numel(), "[", op, "] elements of rounded");
  }
  for (const Tensor& part : {scalars.values, scalars.grad_scale, scalars.segments})
    check_same_device(op, param, part);
  RINGLET_CHECK_EQ(scalars.segments.dtype(), DType::i64, "[", op, "] dtype of segments");
  check_shape(op, "segments", scalars.segments, {scalars.segments.size(0), kSegmentWidth});
  check_f64(op, "scalars", scalars.values, scalars.segments.size(0) * width);
  check_f64(op, "grad_scale", scalars.grad_scale, 1);
}

StepSegments segments_of(const StepScalars& scalars) {
  return {reinterpret_cast<const StepSegment*>(scalars.segments.data<std::int64_t>()),
          scalars.segments.size(0)};
}

std::int64_t norm_blocks(const Tensor& x) { return (x.numel() + kNormBlock - 1) / kNormBlock; }

}  // namespace

StepScalars step_scalars(const std::vector<double>& values, double grad_scale, Device device) {
  return {tensor(values, {static_cast<std::int64_t>(values.size())}, device),
          tensor(std::vector<double>{grad_scale}, {1}, device),
          segment_table({{0, std::numeric_limits<std::int64_t>::max()}}, device)};
}

Tensor segment_table(const std::vector<StepSegment>& segments, Device device) {
  std::vector<std::int64_t> flat;
  for (const StepSegment& one : segments) flat.insert(flat.end(), {one.begin, one.end});
  return tensor(flat, {static_cast<std::int64_t>(segments.size()), kSegmentWidth}, device);
}

std::vector<double> adamw_scalars(double lr, double weight_decay, std::int64_t step,
                                  const AdamWConstants& constants) {
  RINGLET_CHECK(step >= 1, "[adamw] steps count from 1, not ", step);
  const auto steps = static_cast<double>(step);
  return {lr, weight_decay, 1 - std::pow(constants.beta1, steps),
          1 - std::pow(constants.beta2, steps)};
}

void adamw_(Tensor& param, const Tensor& grad, Tensor& exp_avg, Tensor& exp_avg_sq,
            const StepScalars& scalars, const AdamWConstants& constants, Tensor rounded,
            const Tensor& blocks) {
  check_step("adamw", param, grad, rounded, scalars, 4);
  check_state("adamw", "exp_avg", param, exp_avg);
  check_state("adamw", "exp_avg_sq", param, exp_avg_sq);
  const bool has_blocks = blocks.defined() && param.dtype() == DType::f32;
  if (has_blocks) {
    check_same_device("adamw", param, blocks);
    check_f64("adamw", "blocks", blocks, norm_blocks(param));
  }
  if (param.numel() == 0) return;
  adamw_kernel(
      {param.mutable_bytes(), grad.bytes(), exp_avg.mutable_bytes(), exp_avg_sq.mutable_bytes(),
       rounded.mutable_bytes(), has_blocks ? blocks.data<double>() : nullptr, param.numel(),
       segments_of(scalars), scalars.values.data<double>(), scalars.grad_scale.data<double>(),
       constants.beta1, constants.beta2, constants.eps, param.dtype()},
      param.device());
}

void sgd_(Tensor& param, const Tensor& grad, Tensor& momentum_buffer, const StepScalars& scalars,
          const SGDConstants& constants, Tensor rounded) {
  check_step("sgd", param, grad, rounded, scalars, 2);
  RINGLET_CHECK_EQ(momentum_buffer.defined(), constants.momentum != 0,
                   "[sgd] a momentum buffer and momentum ", constants.momentum);
  RINGLET_CHECK(!constants.nesterov || constants.momentum != 0, "[sgd] nesterov needs momentum");
  if (momentum_buffer.defined()) check_state("sgd", "momentum_buffer", param, momentum_buffer);
  if (param.numel() == 0) return;
  sgd_kernel(
      {param.mutable_bytes(), grad.bytes(), momentum_buffer.mutable_bytes(),
       rounded.mutable_bytes(), param.numel(), segments_of(scalars), scalars.values.data<double>(),
       scalars.grad_scale.data<double>(), constants.momentum, constants.nesterov, param.dtype()},
      param.device());
}

Tensor squared_norm_blocks(const Tensor& x) {
  Tensor out = empty({norm_blocks(x)}, DType::f64, x.device());
  squared_norm_blocks_into(out, x);
  return out;
}

void squared_norm_blocks_into(Tensor& out, const Tensor& x) {
  check_same_device("squared_norm", out, x);
  check_f64("squared_norm", "out", out, norm_blocks(x));
  if (x.numel() > 0)
    squared_norm_kernel({out.mutable_data<double>(), x.bytes(), x.numel(), x.dtype()}, x.device());
}

Tensor clip_factor(const Tensor& blocks, double max_norm, bool check_finite) {
  Tensor out = zeros({3}, DType::f64, blocks.device());
  clip_factor_into(out, blocks, max_norm, check_finite);
  return out;
}

void clip_factor_into(Tensor& out, const Tensor& blocks, double max_norm, bool check_finite) {
  check_same_device("clip_factor", out, blocks);
  check_f64("clip_factor", "out", out, 3);
  check_f64("clip_factor", "blocks", blocks, blocks.numel());
  clip_factor_kernel(
      {out.mutable_data<double>(), blocks.data<double>(), blocks.numel(), max_norm, check_finite},
      blocks.device());
}

}  // namespace ringlet
