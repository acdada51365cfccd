// softmax and log_softmax over the last axis, as in core/ops/softmax.h, with gradients.
#include "ringlet/autograd/functions.h"

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/softmax.h"

namespace ringlet::autograd {

Variable softmax(const Variable& x) {
  const Tensor y = ringlet::softmax(x.tensor());
  return record("softmax", y, {x}, [y = Saved(y)](const Tensor& grad, Gradients& grads) {
    grads[0].set(softmax_backward(grad, y.tensor(grads)));
  });
}

Variable log_softmax(const Variable& x) {
  const Tensor y = ringlet::log_softmax(x.tensor());
  return record("log_softmax", y, {x}, [y = Saved(y)](const Tensor& grad, Gradients& grads) {
    grads[0].set(log_softmax_backward(grad, y.tensor(grads)));
  });
}

}  // namespace ringlet::autograd
