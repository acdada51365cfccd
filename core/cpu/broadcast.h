// Operands of different shapes, processed in runs of the innermost dimension.
#pragma once

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/ops/elementwise.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// Calls row(out offset, operand offsets, length) for pieces of the innermost dimension.
template <int kOperands, class Row>
void for_rows(const BroadcastPlan& plan, Device device, Row row) {
  const int last = plan.dim - 1;
  const std::int64_t inner = plan.size[last];
  std::int64_t outer = 1;
  for (int i = 0; i < last; ++i) outer *= plan.size[i];
  auto run = [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
    std::int64_t offset[kOperands];
    for (int k = 0; k < kOperands; ++k) offset[k] = begin * plan.stride[k][last];
    std::int64_t rest = index;
    for (int i = last - 1; i >= 0; --i) {
      const std::int64_t at = rest % plan.size[i];
      rest /= plan.size[i];
      for (int k = 0; k < kOperands; ++k) offset[k] += at * plan.stride[k][i];
    }
    row(index * inner + begin, offset, end - begin);
  };
  if (outer == 1) {
    parallel_for(device, inner, kGrain,
                 [&](std::int64_t begin, std::int64_t end) { run(0, begin, end); });
  } else {
    for_each(device, outer, kGrain / inner + 1, [&](std::int64_t i) { run(i, 0, inner); });
  }
}

}  // namespace
}  // namespace ringlet::cpu::RINGLET_ISA
