// Functions that keep the elements: view, slice, cast. All but cast share storage.
#pragma once

#include "ringlet/autograd/node.h"

namespace ringlet::autograd {

struct ViewNode final : Node {
  Shape shape;
  const char* name() const override { return "view"; }
  void backward(const Tensor& grad, Gradients& grads) override { grads[0].set(grad.view(shape)); }
};

/// The same elements in another shape; one size may be -1.
inline Variable view(const Variable& x, const Shape& shape) {
  return record<ViewNode>(x.tensor().view(shape), {x},
                          [&](ViewNode& node) { node.shape = x.shape(); });
}

struct SliceNode final : Node {
  Shape shape;
  std::int64_t begin;
  const char* name() const override { return "slice"; }
  void backward(const Tensor& grad, Gradients& grads) override {
    Tensor whole = zeros(shape, grad.dtype(), grad.device());
    whole.slice(begin, begin + grad.size(0)).copy_(grad);
    grads[0].set(whole);
  }
};

/// Rows [begin, end) of the outermost dimension.
inline Variable slice(const Variable& x, std::int64_t begin, std::int64_t end) {
  return record<SliceNode>(x.tensor().slice(begin, end), {x}, [&](SliceNode& node) {
    node.shape = x.shape();
    node.begin = begin;
  });
}

struct CastNode final : Node {
  DType dtype;
  const char* name() const override { return "cast"; }
  void backward(const Tensor& grad, Gradients& grads) override { grads[0].set(grad.to(dtype)); }
};

inline Variable cast(const Variable& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return record<CastNode>(x.tensor().to(dtype), {x},
                          [&](CastNode& node) { node.dtype = x.dtype(); });
}

}  // namespace ringlet::autograd
