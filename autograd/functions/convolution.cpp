// Convolution and max pooling, with gradients.
#include "ringlet/autograd/functions.h"

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/max_pool.h"

namespace ringlet::autograd {

Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2dOptions& options) {
  const Tensor y =
      ringlet::conv2d(x.tensor(), weight.tensor(), bias ? bias.tensor() : Tensor(), options);
  auto backward = [x = Saved(x), weight = Saved(weight), bias = Saved(bias), options](
                      const Tensor& grad, Gradients& grads) {
    const Tensor& w = weight.tensor(grads);
    if (grads[0].needed())
      grads[0].set(ringlet::conv2d_backward_input(grad, w, x.tensor(grads).shape(), options));
    if (grads[1].needed())
      ringlet::conv2d_backward_weight(grads[1].sink_of(w), grad, x.tensor(grads), options);
    if (grads[2].needed())
      ringlet::conv2d_backward_bias(grads[2].sink_of(bias.tensor(grads)), grad);
  };
  return record("conv2d", y, {x, weight, bias}, std::move(backward));
}

Variable max_pool2d(const Variable& x, std::int64_t kernel, std::int64_t stride) {
  const MaxPool2dOutput out = ringlet::max_pool2d(x.tensor(), kernel, stride);
  auto backward = [indices = out.indices, shape = x.shape()](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::max_pool2d_backward(grad, indices, shape));
  };
  return record("max_pool2d", out.y, {x}, std::move(backward));
}

}  // namespace ringlet::autograd
