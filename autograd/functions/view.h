// Functions that keep the elements: view, slice, cast. All but cast share storage.
#pragma once

#include "ringlet/autograd/node.h"

namespace ringlet::autograd {

/// The same elements in another shape; one size may be -1.
inline Variable view(const Variable& x, const Shape& shape) {
  return record("view", x.tensor().view(shape), {x},
                [shape = x.shape()](const Tensor& grad, Gradients& grads) {
                  grads[0].set(grad.view(shape));
                });
}

/// Rows [begin, end) of the outermost dimension.
inline Variable slice(const Variable& x, std::int64_t begin, std::int64_t end) {
  return record("slice", x.tensor().slice(begin, end), {x},
                [shape = x.shape(), begin](const Tensor& grad, Gradients& grads) {
                  Tensor whole = zeros(shape, grad.dtype(), grad.device());
                  whole.slice(begin, begin + grad.size(0)).copy_(grad);
                  grads[0].set(whole);
                });
}

inline Variable cast(const Variable& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return record(
      "cast", x.tensor().to(dtype), {x},
      [dtype = x.dtype()](const Tensor& grad, Gradients& grads) { grads[0].set(grad.to(dtype)); });
}

}  // namespace ringlet::autograd
