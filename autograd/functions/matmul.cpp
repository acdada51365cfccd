// Matrix products and linear layers, with gradients.
#include "ringlet/autograd/functions.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "ringlet/autograd/leaf_recorder.h"
#include "ringlet/autograd/node.h"
#include "ringlet/autograd/side_branch.h"
#include "ringlet/core/ops/checks.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::autograd {
namespace {

/// Runs `work`, on this thread's side branch if there is one. `work` reads `reads` and writes the
/// gradients of the inputs from `first` on. With an inner variable among them it does not run on
/// the branch, because backward reads that gradient before a join.
void run_beside(Gradients& grads, std::size_t first, const std::vector<Tensor>& reads,
                const std::function<void()>& work) {
  SideBranch* const branch = SideBranch::current();
  bool leaves = true;
  for (std::size_t i = first; i < grads.size(); ++i)
    leaves = leaves && (!grads[i].needed() || grads[i].is_leaf());
  if (branch && leaves) return branch->run(reads, work);
  work();
}

struct MatmulBackward {
  Saved a, b;
  MatmulOptions options;

  void operator()(const Tensor& grad, Gradients& grads) const {
    const Tensor &to_a = a.tensor(grads), &to_b = b.tensor(grads);
    if (grads[0].needed()) for_a(grad, to_b, grads[0].sink_of(to_a));
    if (grads[1].needed()) for_b(grad, to_a, grads[1].sink_of(to_b));
  }

  // a's gradient is grad op(b)', or its transpose if a is stored transposed.
  void for_a(const Tensor& grad, const Tensor& other, GradientSink to) const {
    if (!options.trans_a)
      return matmul_into(to.out, grad, other, {false, !options.trans_b}, to.beta);
    if (other.dim() == grad.dim())
      return matmul_into(to.out, other, grad, {options.trans_b, true}, to.beta);
    const Tensor grads = matrices(grad);
    Tensor out = matrices(to.out);
    for (std::int64_t i = 0; i < grads.size(0); ++i) {
      Tensor one = out[i];
      matmul_into(one, other, grads[i], {options.trans_b, true}, to.beta);
    }
  }

  // b's gradient is op(a)' grad, or its transpose; a matrix shared by a batch gets the sum.
  void for_b(const Tensor& grad, const Tensor& other, GradientSink to) const {
    if (to.out.dim() == grad.dim()) return product_for_b(to.out, other, grad, to.beta);
    if (!options.trans_a) return product_for_b(to.out, rows(other), rows(grad), to.beta);
    const Tensor as = matrices(other), grads = matrices(grad);
    if (grads.size(0) == 0 && to.beta == 0) to.out.zero_();
    for (std::int64_t i = 0; i < grads.size(0); ++i)
      product_for_b(to.out, as[i], grads[i], i == 0 ? to.beta : 1);
  }

  void product_for_b(Tensor& out, const Tensor& other, const Tensor& grad, double beta) const {
    if (options.trans_b) {
      matmul_into(out, grad, other, {true, options.trans_a}, beta);
    } else {
      matmul_into(out, other, grad, {!options.trans_a, false}, beta);
    }
  }

  static std::int64_t batch(const Tensor& x) {
    std::int64_t count = 1;
    for (int i = 0; i < x.dim() - 2; ++i) count *= x.size(i);
    return count;
  }
  static Tensor matrices(const Tensor& x) { return x.view({batch(x), x.size(-2), x.size(-1)}); }
  static Tensor rows(const Tensor& x) { return x.view({batch(x) * x.size(-2), x.size(-1)}); }
};

}  // namespace

Variable matmul(const Variable& a, const Variable& b, MatmulOptions options) {
  return record("matmul", ringlet::matmul(a.tensor(), b.tensor(), options), {a, b},
                MatmulBackward{a, b, options});
}

// ---- linear layers ------------------------------------------------------------------------

namespace {

// Weights stay unchanged if nothing is recorded, except in a checkpointed segment's first run.
WeightUse weight_use() {
  return grad_enabled() || LeafRecorder::active() ? WeightUse::changing : WeightUse::kept;
}

/// The tensors as one: a view if they are contiguous already (in an arena), else a copy.
Tensor joined(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts[0];
  const Tensor view = adjacent(parts);
  return view.defined() ? view : ringlet::concat(parts, 0);
}

/// The gradients of y = x W' + b, where W and b have the rows of all parts.
struct LinearBackward {
  Saved x;                     // (.., in)
  std::vector<Saved> weights;  // (rows, in) each
  DType bias_dtype;
  Tensor pre;  // (.., out) if GELU follows, else undefined

  void operator()(const Tensor& grad_y, Gradients& grads) const {
    const Tensor& input = x.tensor(grads);
    std::vector<Tensor> values;
    for (const Saved& weight : weights) values.push_back(weight.tensor(grads));
    const std::size_t count = values.size();
    Sinks to_biases({&grads[1 + count], count}, values, bias_dtype, true);
    const Tensor grad =
        pre ? gelu_backward(grad_y, pre, std::exchange(to_biases, {}).whole) : grad_y;
    const Sinks to_weights({&grads[1], count}, values, values[0].dtype(), false);
    const std::int64_t in = values[0].size(1), out = grad.size(-1);
    const std::int64_t rows = out > 0 ? grad.numel() / out : in > 0 ? input.numel() / in : 0;
    const Tensor rows_grad = grad.view({rows, out}), rows_x = input.view({rows, in});
    run_beside(grads, 1, {rows_grad, rows_x}, [&] {
      if (to_weights.at_once() && to_biases.at_once())
        return linear_gradients_into(to_weights.whole, to_biases.whole, rows_grad, rows_x);
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t size = values[i].size(0);
        const GradientSink to_weight = to_weights.parts[i], to_bias = to_biases.parts[i];
        if (to_weight || to_bias)
          linear_gradients_into(to_weight, to_bias, ringlet::narrow(rows_grad, 1, begin, size),
                                rows_x);
        begin += size;
      }
    });
    if (!grads[0].needed()) return;
    const GradientSink to = grads[0].sink_of(input);
    Tensor rows_to = to.out.view({rows, in});
    matmul_into(rows_to, rows_grad, joined(values), {}, to.beta);
  }

  // The destinations of all parts' gradients; `whole` if all are needed and contiguous.
  struct Sinks {
    std::vector<GradientSink> parts;
    GradientSink whole;
    std::size_t wanted = 0;

    Sinks() = default;
    Sinks(std::span<Gradient> grads, const std::vector<Tensor>& weights, DType dtype, bool bias)
        : parts(grads.size()) {
      std::vector<Tensor> outs;
      for (std::size_t i = 0; i < grads.size(); ++i) {
        if (!grads[i].needed()) continue;
        const Tensor& weight = weights[i];
        parts[i] =
            grads[i].sink(bias ? Shape{weight.size(0)} : weight.shape(), dtype, weight.device());
        outs.push_back(parts[i].out);
      }
      wanted = outs.size();
      const bool same_beta = std::all_of(parts.begin(), parts.end(), [&](const GradientSink& part) {
        return part.beta == parts[0].beta;
      });
      if (wanted == parts.size() && same_beta) whole = {adjacent(outs), parts[0].beta};
    }
    bool at_once() const { return wanted == 0 || whole; }
  };
};

Variable record_linear(const char* op, const Tensor& y, const Variable& x,
                       const std::vector<Variable>& weights, const std::vector<Variable>& biases,
                       const Tensor& pre = {}) {
  std::vector<Variable> inputs;
  inputs.reserve(1 + weights.size() + biases.size());
  inputs.push_back(x);
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  const DType bias_dtype = biases[0] ? biases[0].dtype() : DType::f32;
  return record(op, y, inputs,
                LinearBackward{x, {weights.begin(), weights.end()}, bias_dtype, pre});
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  const Tensor b = bias ? bias.tensor() : Tensor();
  const Tensor y = ringlet::linear(x.tensor(), weight.tensor(), b, weight_use());
  return record_linear("linear", y, x, {weight}, {bias});
}

Variable linear(const Variable& x, const Variable& weight, const Variable& bias,
                Variable* open_bias) {
  if (!open_bias || !bias) return linear(x, weight, bias);
  *open_bias = bias;
  return linear(x, weight, bias.detach());
}

Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias) {
  const Tensor b = bias ? bias.tensor() : Tensor();
  Tensor pre;
  const Tensor y = ringlet::linear_gelu(x.tensor(), weight.tensor(), b, pre, weight_use());
  return record_linear("linear_gelu", y, x, {weight}, {bias}, pre);
}

Variable packed_linear(const Variable& x, const std::vector<Variable>& weights,
                       const std::vector<Variable>& biases) try {
  std::vector<Tensor> weight_tensors, bias_tensors;
  for (const Variable& weight : weights) weight_tensors.push_back(weight.tensor());
  for (const Variable& bias : biases) bias_tensors.push_back(bias.tensor());
  const Tensor y =
      ringlet::linear(x.tensor(), joined(weight_tensors), joined(bias_tensors), weight_use());
  return record_linear("packed_linear", y, x, weights, biases);
} catch (const Error& error) {
  fail_as("packed_linear", error);
}

}  // namespace ringlet::autograd
