#include "ringlet/core/ops/normalize.h"

#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<NormalizeArgs> normalize_kernel("normalize");
constinit OpKernel<NormalizeBackwardArgs> normalize_backward_kernel("normalize_backward");

NormalizeOutput normalize(const Tensor& x, double eps) {
  const std::int64_t rows = rows_of("normalize", x);
  NormalizeOutput out{empty_like(x), empty({rows}, parameter_dtype(x.dtype()), x.device())};
  if (rows > 0)
    normalize_kernel({out.y.mutable_bytes(), out.norm.mutable_bytes(), x.bytes(), rows, x.size(-1),
                      eps, x.dtype()},
                     x.device());
  return out;
}

Tensor normalize_backward(const Tensor& grad, const Tensor& x, const Tensor& norm, double eps) {
  check_like("normalize", "gradient", grad, x);
  const std::int64_t rows = rows_of("normalize", x);
  check_parameter("normalize", "norm", norm, {rows}, x);
  Tensor grad_x = empty_like(x);
  if (rows > 0)
    normalize_backward_kernel({grad_x.mutable_bytes(), grad.bytes(), x.bytes(), norm.bytes(), rows,
                               x.size(-1), eps, x.dtype()},
                              x.device());
  return grad_x;
}

}  // namespace ringlet
