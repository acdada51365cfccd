#include "ringlet/core/ops/fill.h"

namespace ringlet {

constinit Kernel<FillArgs> fill_kernel("fill");
constinit Kernel<CastArgs> cast_kernel("cast");

}  // namespace ringlet
