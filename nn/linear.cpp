#include "ringlet/nn/linear.h"

#include "ringlet/autograd/functions.h"

namespace ringlet::nn {

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias)
    : weight(register_parameter("weight", fan_in_uniform({out, in}, in))) {
  if (with_bias) bias = register_parameter("bias", fan_in_uniform({out}, in));
}

Linear::Linear(Tensor weight, Tensor bias)
    : weight(register_parameter("weight", std::move(weight))) {
  if (bias.defined()) this->bias = register_parameter("bias", std::move(bias));
}

Linear::Linear(const Parameter& weight, const Parameter& bias) : weight(weight), bias(bias) {
  register_parameter("weight", weight);
  if (bias) register_parameter("bias", bias);
}

std::shared_ptr<Module> Linear::blank_copy(Cloner&) const {
  return std::make_shared<Linear>(weight.size(1), weight.size(0), bias.defined());
}

// ---- whole or in slices -------------------------------------------------------------------

namespace {

using Product = Variable (*)(const Variable& x, const Variable& weight, const Variable& bias);

// Every slice reads all of x and computes its columns of the output.
Variable in_columns(const LayerSlices& slices, const Variable& x, const Linear& layer,
                    Product product, std::int64_t rows) {
  const std::vector<Variable> inputs = slices.inputs(x, rows);
  return slices.join(-1, [&](int i) {
    return product(inputs[static_cast<std::size_t>(i)], slices.part(layer.weight, 0, i),
                   slices.part(layer.bias, 0, i));
  });
}

// x is cut, and the bias is added once, to the sum.
Variable in_rows(const LayerSlices& slices, const Variable& x, const Linear& layer) {
  std::vector<Variable> partial;
  for (int i = 0; i < slices.here(); ++i)
    partial.push_back(autograd::linear(slices.part(x, -1, i), slices.part(layer.weight, 1, i)));
  return slices.sum(partial, layer.bias);
}

}  // namespace

Variable Linear::forward(const Variable& x) {
  if (rows_) return in_rows(*rows_, x, *this);
  return columns_ ? in_columns(*columns_, x, *this, autograd::linear, -1)
                  : autograd::linear(x, weight, bias);
}

Variable Linear::operator()(const Variable& x, Variable* open_bias) {
  if (rows_ || columns_ || strategy_hooks().pre_backward) open_bias = nullptr;
  return enter(
      [&] { return open_bias ? autograd::linear(x, weight, bias, open_bias) : forward(x); });
}

Variable Linear::forward_gelu(const Variable& x, std::int64_t rows) {
  if (rows_) return autograd::gelu(forward(x));
  return columns_ ? in_columns(*columns_, x, *this, autograd::linear_gelu, rows)
                  : autograd::linear_gelu(x, weight, bias);
}

std::int64_t Linear::pieces(SliceKind kind) const {
  if (kind == SliceKind::columns) return weight.size(0);
  return kind == SliceKind::rows ? weight.size(1) : 0;
}

void Linear::slice(SliceKind kind, const SlicesPtr& slices, const Cut& cut) {
  const bool columns = kind == SliceKind::columns;
  cut(weight, columns ? 0 : 1);
  if (columns && bias) cut(bias, 0);
  (columns ? columns_ : rows_) = slices;
}

}  // namespace ringlet::nn
