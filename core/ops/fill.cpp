#include "ringlet/core/ops/fill.h"

#include <cmath>

namespace ringlet {

constinit Kernel<FillArgs> fill_kernel("fill");
constinit Kernel<CastArgs> cast_kernel("cast");

void fill(Tensor& out, double value) {
  if (out.numel() == 0) return;
  fill_kernel({out.mutable_bytes(), out.numel(), value, 0, out.dtype()}, out.device());
}

void cast(Tensor& out, const Tensor& in) {
  check_same_device("cast", out, in);
  RINGLET_CHECK_EQ(out.numel(), in.numel(), "[cast] ", in.shape(), " to ", out.shape());
  if (out.numel() == 0) return;
  cast_kernel({out.mutable_bytes(), in.bytes(), out.numel(), out.dtype(), in.dtype()},
              out.device());
}

Tensor arange(double start, double end, double step, DType dtype, Device device) {
  RINGLET_CHECK(step != 0, "[arange] step must not be 0");
  const double count = std::ceil((end - start) / step);
  Tensor out = empty({count > 0 ? static_cast<std::int64_t>(count) : 0}, dtype, device);
  if (out.numel() > 0) fill_kernel({out.mutable_bytes(), out.numel(), start, step, dtype}, device);
  return out;
}

}  // namespace ringlet
