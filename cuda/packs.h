// Which elements a kernel moves 16 bytes at a time, and the grid for them.
#pragma once

#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

/// The number of leading elements, of n, that are moved in whole packs of kPack<T>: 0 unless all
/// pointers are aligned.
template <class T, class... Pointers>
std::int64_t in_packs(std::int64_t n, const Pointers*... pointers) {
  return aligned16(pointers...) ? n - n % kPack<T> : 0;
}

/// Blocks for `packed` elements in packs; for all n single elements if `packed` is 0.
template <class T>
unsigned grid_of_packs(std::int64_t n, std::int64_t packed) {
  return grid_for(packed > 0 ? packed / kPack<T> : n);
}

}  // namespace ringlet::cuda
