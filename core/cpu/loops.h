// Loops of kernels on the device's threads. Each task copies the body. Values that it captures by
// copy can stay in registers; references cannot.
#pragma once

#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/threads/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {

// The smallest number of elements of a task.
inline constexpr std::int64_t kGrain = 1 << 14;

/// Calls body(i) for i in [0, n), in tasks of at least `grain`.
template <class Body>
RINGLET_INLINE void for_each(Device device, std::int64_t n, std::int64_t grain, Body body) {
  parallel_for(device, n, grain, [&](std::int64_t begin, std::int64_t end) {
    const Body own = body;
    for (std::int64_t i = begin; i < end; ++i) own(i);
  });
}

/// for_vectors() on the threads.
template <class T, class Body>
RINGLET_INLINE void for_vectors(Device device, std::int64_t n, Body body) {
  parallel_for(device, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    const Body own = body;
    for_vectors<T>(
        end - begin, [&](std::int64_t i, std::int64_t count)
                         __attribute__((always_inline)) { own(begin + i, count); });
  });
}

/// Calls body(o, begin, end) for ranges of the `inner` columns of `outer` blocks, each column in
/// one range.
template <class Body>
RINGLET_INLINE void for_columns(Device device, std::int64_t outer, std::int64_t inner,
                                std::int64_t grain, Body body) {
  parallel_for(device, outer * inner, grain, [&](std::int64_t begin, std::int64_t end) {
    const Body own = body;
    while (begin < end) {
      const std::int64_t o = begin / inner, first = o * inner;
      const std::int64_t stop = end < first + inner ? end : first + inner;
      own(o, begin - first, stop - first);
      begin = stop;
    }
  });
}

/// The row's address; null if there is no tensor.
template <class T, class Base>
RINGLET_INLINE T* row_of(Base* base, std::int64_t row, std::int64_t columns) {
  return base ? static_cast<T*>(base) + row * columns : nullptr;
}

/// Copies one row to another dtype.
template <class To, class From>
RINGLET_INLINE void copy_row(To* to, const From* from, std::int64_t columns) {
  for_vectors<From>(columns, [&](std::int64_t c, std::int64_t lanes) {
    store_at(to, c, lanes, load_at(from, c, lanes));
  });
}

}  // namespace ringlet::cpu::RINGLET_ISA
