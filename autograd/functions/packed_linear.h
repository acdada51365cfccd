// Several linear layers of one input as one product: query, key and value of attention.
#pragma once

#include <algorithm>

#include "ringlet/autograd/functions/matmul.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::autograd {

/// The tensors as one: a view if they are contiguous already (in an arena), else a copy.
inline Tensor joined(const std::vector<Tensor>& parts) {
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
        const Accumulator to_weight = to_weights.parts[i], to_bias = to_biases.parts[i];
        if (to_weight || to_bias)
          ringlet::linear_gradients_into(to_weight, to_bias,
                                         ringlet::narrow(rows_grad, 1, begin, rows), rows_x);
        begin += rows;
      }
    });
    if (!grads[0].needed()) return;
    const Accumulator to = grads[0].sink_of(input);
    Tensor rows_to = to.out.view(rows_x.shape());
    ringlet::matmul_into(rows_to, rows_grad, joined(values), {}, to.beta);
  }

  // The destinations of all parts' gradients; `whole` if all are needed and contiguous.
  struct Sinks {
    std::vector<Accumulator> parts;
    Accumulator whole;
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
      const bool same_beta = std::all_of(parts.begin(), parts.end(), [&](const Accumulator& part) {
        return part.beta == parts[0].beta;
      });
      if (wanted == parts.size() && same_beta) whole = {adjacent(outs), parts[0].beta};
    }
    bool at_once() const { return wanted == 0 || whole; }
  };
};

/// x (.., in) times each weight (rows_i, in), plus each bias (rows_i), concatenated: (.., rows_0 +
/// rows_1 + …).
inline Variable packed_linear(const Variable& x, const std::vector<Variable>& weights,
                              const std::vector<Variable>& biases) {
  std::vector<Tensor> weight_tensors, bias_tensors;
  std::vector<Variable> inputs{x};
  for (const Variable& weight : weights) weight_tensors.push_back(weight.tensor());
  for (const Variable& bias : biases) bias_tensors.push_back(bias.tensor());
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  const Tensor y = ringlet::linear(x.tensor(), joined(weight_tensors), joined(bias_tensors),
                                   detail::weight_use());
  PackedLinearBackward backward{x, {weights.begin(), weights.end()}, {}};
  for (const Variable& bias : biases) backward.bias_shapes.push_back(bias.shape());
  return record("packed_linear", y, inputs, backward);
}

}  // namespace ringlet::autograd
