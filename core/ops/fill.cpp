#include "ringlet/core/ops/fill.h"

#include <cmath>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

constinit OpKernel<FillArgs> fill_kernel("fill");
constinit OpKernel<CastArgs> cast_kernel("cast");

void Tensor::fill_(double value) {
  if (numel_ > 0) fill_kernel({mutable_bytes(), numel_, value, 0, dtype_}, device());
}

void Tensor::convert_(const Tensor& source) {
  if (numel_ == 0) return;
  cast_kernel({mutable_bytes(), source.bytes(), numel_, dtype_, source.dtype_}, device());
}

Tensor full(Shape shape, double value, DType dtype, Device device) {
  Tensor out = empty(shape, dtype, device);
  out.fill_(value);
  return out;
}

Tensor zeros(Shape shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }
Tensor zeros_like(const Tensor& other) {
  return zeros(other.shape(), other.dtype(), other.device());
}
Tensor ones(Shape shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }

Tensor arange(double start, double end, double step, DType dtype, Device device) {
  RINGLET_CHECK(step != 0, "[arange] step must not be 0");
  const double count = std::ceil((end - start) / step);
  Tensor out = empty({count > 0 ? static_cast<std::int64_t>(count) : 0}, dtype, device);
  if (out.numel() > 0) fill_kernel({out.mutable_bytes(), out.numel(), start, step, dtype}, device);
  return out;
}

}  // namespace ringlet
