#include "ringlet/core/ops/normalize.h"

#include "ringlet/core/ops/accumulator.h"
#include "ringlet/core/ops/saved.h"

namespace ringlet {

constinit Kernel<NormalizeArgs> normalize_kernel("normalize");
constinit Kernel<NormalizeBackwardArgs> normalize_backward_kernel("normalize_backward");

namespace {

std::int64_t vectors_of(const Tensor& x) {
  RINGLET_CHECK(x.dim() > 0 && x.size(-1) > 0, "[normalize] no columns in ", x.shape());
  return x.numel() / x.size(-1);
}

}  // namespace

NormalizeOutput normalize(const Tensor& x, double eps) {
  const std::int64_t rows = vectors_of(x);
  NormalizeOutput out{empty_like(x), empty({rows}, parameter_dtype(x.dtype()), x.device())};
  if (rows > 0)
    normalize_kernel({out.y.mutable_bytes(), out.norm.mutable_bytes(), x.bytes(), rows, x.size(-1),
                      eps, x.dtype()},
                     x.device());
  return out;
}

Tensor normalize_backward(const Tensor& grad, const Tensor& x, const Tensor& norm, double eps) {
  check_same_device("normalize", grad, x);
  check_same_dtype("normalize", grad, x);
  check_shape("normalize", "gradient", grad, x.shape());
  const std::int64_t rows = vectors_of(x);
  check_saved("normalize", "norm", norm, {rows}, parameter_dtype(x.dtype()), x.device());
  Tensor grad_x = empty_like(x);
  if (rows > 0)
    normalize_backward_kernel({grad_x.mutable_bytes(), grad.bytes(), x.bytes(), norm.bytes(), rows,
                               x.size(-1), eps, x.dtype()},
                              x.device());
  return grad_x;
}

}  // namespace ringlet
