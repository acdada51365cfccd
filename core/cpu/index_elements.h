// Byte copies and index checks for all ops of the family.
#pragma once

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::cpu::RINGLET_ISA {

// The smallest number of bytes of a task.
inline constexpr std::int64_t kGrainBytes = 1 << 16;

RINGLET_INLINE void copy(void* to, const void* from, std::int64_t nbytes) {
  memcpy(to, from, static_cast<size_t>(nbytes));
}

/// Calls body.template operator()<Index>() for the type of an index.
template <class Body>
static inline void dispatch_index(DType dtype, Body&& body) {
  if (dtype == DType::i32) return body.template operator()<std::int32_t>();
  body.template operator()<std::int64_t>();
}

/// The index if it is in [0, size); else throws.
template <class Index>
RINGLET_INLINE std::int64_t checked(const char* op, Index index, std::int64_t size) {
  const std::int64_t wide = static_cast<std::int64_t>(index);
  if (wide < 0 || wide >= size) [[unlikely]]
    index_out_of_range(op, wide, size);
  return wide;
}

}  // namespace ringlet::cpu::RINGLET_ISA
