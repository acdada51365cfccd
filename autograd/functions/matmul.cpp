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

/// `pre` (.., out) is defined if GELU follows.
Variable record_linear(const Tensor& y, const Tensor& pre, const Variable& x,
                       const Variable& weight, const Variable& bias) {
  const DType bias_dtype = bias ? bias.dtype() : DType::f32;
  auto backward = [x = Saved(x), weight = Saved(weight), pre, bias_dtype](const Tensor& grad_y,
                                                                          Gradients& grads) {
    const Tensor& w = weight.tensor(grads);
    GradientSink to_bias;
    if (grads[2].needed()) to_bias = grads[2].sink({w.size(0)}, bias_dtype, w.device());
    const Tensor grad = pre ? gelu_backward(grad_y, pre, std::exchange(to_bias, {})) : grad_y;
    const Tensor& input = x.tensor(grads);
    const std::int64_t in = w.size(1), out = w.size(0);
    const std::int64_t rows = out > 0 ? grad.numel() / out : in > 0 ? input.numel() / in : 0;
    const Tensor rows_grad = grad.view({rows, out}), rows_x = input.view({rows, in});
    const GradientSink to_weight = grads[1].sink_of(w);
    run_beside(grads, 1, {rows_grad, rows_x},
               [&] { linear_gradients_into(to_weight, to_bias, rows_grad, rows_x); });
    if (!grads[0].needed()) return;
    const GradientSink to = grads[0].sink_of(input);
    Tensor rows_to = to.out.view({rows, in});
    matmul_into(rows_to, rows_grad, w, {}, to.beta);
  };
  return record(pre ? "linear_gelu" : "linear", y, {x, weight, bias}, std::move(backward));
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  const Tensor b = bias ? bias.tensor() : Tensor();
  return record_linear(ringlet::linear(x.tensor(), weight.tensor(), b, weight_use()), {}, x, weight,
                       bias);
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
  return record_linear(y, pre, x, weight, bias);
}

namespace {

/// The tensors as one: a view if they are contiguous already (in an arena), else a copy.
Tensor joined(const std::vector<Tensor>& parts) {
  const Tensor view = adjacent(parts);
  return view.defined() ? view : ringlet::concat(parts, 0);
}

struct PackedLinearBackward {
  Saved x;                         // (.., in)
  std::vector<Saved> weights;      // (rows, in) each
  std::vector<Shape> bias_shapes;  // (rows) each

  void operator()(const Tensor& grad, Gradients& grads) const {
    const Tensor& input = x.tensor(grads);
    const Tensor rows_x = input.view({-1, input.size(-1)});   // (R, in)
    const Tensor rows_grad = grad.view({-1, grad.size(-1)});  // (R, out)
    std::vector<Tensor> values;
    std::vector<Shape> weight_shapes;
    for (const Saved& weight : weights) {
      values.push_back(weight.tensor(grads));
      weight_shapes.push_back(values.back().shape());
    }

    const DType dtype = values[0].dtype();
    Sinks to_weights({&grads[1], weights.size()}, weight_shapes, dtype, grad.device());
    Sinks to_biases({&grads[1 + weights.size()], weights.size()}, bias_shapes, dtype,
                    grad.device());
    run_beside(grads, 1, {rows_grad, rows_x}, [&] {
      if (to_weights.at_once() && to_biases.at_once())
        return ringlet::linear_gradients_into(to_weights.whole, to_biases.whole, rows_grad, rows_x);
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const std::int64_t rows = weight_shapes[i][0];
        const GradientSink to_weight = to_weights.parts[i], to_bias = to_biases.parts[i];
        if (to_weight || to_bias)
          ringlet::linear_gradients_into(to_weight, to_bias,
                                         ringlet::narrow(rows_grad, 1, begin, rows), rows_x);
        begin += rows;
      }
    });
    if (!grads[0].needed()) return;
    const GradientSink to = grads[0].sink_of(input);
    Tensor rows_to = to.out.view(rows_x.shape());
    ringlet::matmul_into(rows_to, rows_grad, joined(values), {}, to.beta);
  }

  // The destinations of all parts' gradients; `whole` if all are needed and contiguous.
  struct Sinks {
    std::vector<GradientSink> parts;
    GradientSink whole;
    std::size_t wanted = 0;

    Sinks(std::span<Gradient> grads, const std::vector<Shape>& shapes, DType dtype, Device device)
        : parts(grads.size()) {
      std::vector<Tensor> outs;
      for (std::size_t i = 0; i < grads.size(); ++i) {
        if (!grads[i].needed()) continue;
        parts[i] = grads[i].sink(shapes[i], dtype, device);
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

}  // namespace

Variable packed_linear(const Variable& x, const std::vector<Variable>& weights,
                       const std::vector<Variable>& biases) try {
  std::vector<Tensor> weight_tensors, bias_tensors;
  std::vector<Variable> inputs{x};
  for (const Variable& weight : weights) weight_tensors.push_back(weight.tensor());
  for (const Variable& bias : biases) bias_tensors.push_back(bias.tensor());
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  const Tensor y =
      ringlet::linear(x.tensor(), joined(weight_tensors), joined(bias_tensors), weight_use());
  PackedLinearBackward backward{x, {weights.begin(), weights.end()}, {}};
  for (const Variable& bias : biases) backward.bias_shapes.push_back(bias.shape());
  return record("packed_linear", y, inputs, backward);
} catch (const Error& error) {
  fail_as("packed_linear", error);
}

}  // namespace ringlet::autograd
