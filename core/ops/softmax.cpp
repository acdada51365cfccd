#include "ringlet/core/ops/softmax.h"

#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<SoftmaxArgs> softmax_kernel("softmax");
constinit OpKernel<SoftmaxBackwardArgs> softmax_backward_kernel("softmax_backward");

namespace {

Tensor forward(const char* op, const Tensor& x, bool log) {
  check_rows(op, x);
  Tensor out = empty_like(x);
  const std::int64_t columns = x.size(-1);
  if (x.numel() > 0)
    softmax_kernel({out.mutable_bytes(), x.bytes(), x.numel() / columns, columns, log, x.dtype()},
                   x.device());
  return out;
}

Tensor backward(const char* op, const Tensor& grad, const Tensor& y, bool log) {
  check_like(op, "grad", grad, y);
  check_rows(op, y);
  Tensor out = empty_like(y);
  const std::int64_t columns = y.size(-1);
  if (y.numel() > 0)
    softmax_backward_kernel({out.mutable_bytes(), grad.bytes(), y.bytes(), y.numel() / columns,
                             columns, log, y.dtype()},
                            y.device());
  return out;
}

}  // namespace

Tensor softmax(const Tensor& x) { return forward("softmax", x, false); }
Tensor log_softmax(const Tensor& x) { return forward("log_softmax", x, true); }
Tensor softmax_backward(const Tensor& grad, const Tensor& y) {
  return backward("softmax_backward", grad, y, false);
}
Tensor log_softmax_backward(const Tensor& grad, const Tensor& y) {
  return backward("log_softmax_backward", grad, y, true);
}

}  // namespace ringlet
