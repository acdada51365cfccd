#include "ringlet/core/ops/fill.h"

namespace ringlet {

constinit OpKernel<FillArgs> fill_kernel("fill");
constinit OpKernel<CastArgs> cast_kernel("cast");

}  // namespace ringlet
