// Copies one row to another dtype.
#pragma once

#include "ringlet/core/cpu/simd.h"

namespace ringlet::cpu::RINGLET_ISA {

template <class To, class From>
RINGLET_INLINE void copy_row(To* to, const From* from, std::int64_t columns) {
  for_vectors<From>(columns, [&](std::int64_t c, std::int64_t lanes) {
    store_at(to, c, lanes, load_at(from, c, lanes));
  });
}

}  // namespace ringlet::cpu::RINGLET_ISA
