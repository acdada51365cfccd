#include "ringlet/core/ops/combine.h"

#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<CombineArgs> combine_kernel("combine");

void combine(Tensor& out, std::span<const Tensor> sources, CombineOp op, double scale) {
  RINGLET_CHECK(!sources.empty(), "[combine] of nothing");
  RINGLET_CHECK(scale == 1 || is_floating(out.dtype()), "[combine] ", out.dtype(),
                " tensors take no scale");
  std::vector<const void*> bytes;
  for (const Tensor& source : sources) {
    check_like("combine", "a source", source, out);
    bytes.push_back(source.bytes());
  }
  if (out.numel() == 0) return;
  combine_kernel({out.mutable_bytes(), bytes.data(), static_cast<int>(bytes.size()), out.numel(),
                  op, scale, out.dtype()},
                 out.device());
}

}  // namespace ringlet
