// Several linear layers of one input as one product: query, key and value of an attention.
#pragma once

#include <algorithm>
#include <functional>

#include "ringlet/autograd/functions/matmul.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::autograd {

/// The tensors end to end: a view where they lie so already (in an arena), else a copy.
inline Tensor joined(const std::vector<Tensor>& parts) {
  const Tensor view = adjacent(parts);
  return view.defined() ? view : ringlet::concat(parts, 0);
}

struct PackedLinearNode final : Node {
  Saved x;                         // (.., in)
  std::vector<Saved> weights;      // (rows, in) each
  std::vector<Shape> bias_shapes;  // (rows) each
  const char* name() const override { return "packed_linear"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    const Tensor& input = x.tensor(*this);
    const Tensor rows_x = input.view({-1, input.size(-1)});   // (R, in)
    const Tensor rows_grad = grad.view({-1, grad.size(-1)});  // (R, out)
    std::vector<Tensor> values;
    std::vector<Shape> weight_shapes;
    for (const Saved& weight : weights) {
      values.push_back(weight.tensor(*this));
      weight_shapes.push_back(values.back().shape());
    }
    if (grads[0].needed()) {
      const Accumulator to = accumulator(grads[0], input);
      Tensor rows_to = to.out.view(rows_x.shape());
      ringlet::matmul_into(rows_to, rows_grad, joined(values), {}, to.beta);
    }

    const DType dtype = values[0].dtype();
    write({&grads[1], weights.size()}, weight_shapes, dtype, rows_grad,
          [&](Tensor& out, const Tensor& part, double beta) {
            ringlet::matmul_into(out, part, rows_x, {.trans_a = true}, beta);
          });
    write({&grads[1 + weights.size()], weights.size()}, bias_shapes, dtype, rows_grad,
          [](Tensor& out, const Tensor& part, double beta) {
            ringlet::sum_rows_into(out, part, beta);
          });
  }

 private:
  using Writer = std::function<void(Tensor& out, const Tensor& part, double beta)>;

  // Gradients that lie end to end are written by one product, others one by one.
  static void write(std::span<Gradient> grads, const std::vector<Shape>& shapes, DType dtype,
                    const Tensor& rows_grad, const Writer& writer) {
    std::vector<Gradient::Sink> sinks;
    std::vector<Tensor> outs;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].needed()) continue;
      sinks.push_back(grads[i].sink(shapes[i], dtype, rows_grad.device()));
      outs.push_back(sinks.back().out);
    }
    const bool all = outs.size() == grads.size();
    const bool same_beta = std::all_of(sinks.begin(), sinks.end(), [&](const Gradient::Sink& s) {
      return s.beta == sinks[0].beta;
    });
    Tensor whole = all && same_beta ? adjacent(outs) : Tensor();
    if (whole.defined()) return writer(whole, rows_grad, sinks[0].beta);
    std::int64_t begin = 0;
    auto sink = sinks.begin();
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const std::int64_t rows = shapes[i][0];
      if (grads[i].needed()) {
        writer(sink->out, ringlet::narrow(rows_grad, 1, begin, rows), sink->beta);
        ++sink;
      }
      begin += rows;
    }
  }
};

/// x (.., in) times each weight (rows_i, in), plus each bias (rows_i), side by side:
/// (.., rows_0 + rows_1 + …).
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
  return record<PackedLinearNode>(y, inputs, [&](PackedLinearNode& node) {
    node.x = x;
    node.weights.assign(weights.begin(), weights.end());
    for (const Variable& bias : biases) node.bias_shapes.push_back(bias.shape());
  });
}

}  // namespace ringlet::autograd
