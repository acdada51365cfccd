// 16 bytes of elements: the size of a thread's vector access.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet::cuda {

/// Elements in 16 bytes.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

/// Whether all of these addresses allow 16-byte accesses.
template <class... Pointers>
RINGLET_HOST_DEVICE bool aligned16(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// n elements: `head` single ones, then `packs` of `pack`, then single ones to the end.
struct VectorSpan {
  std::int64_t n;
  std::int64_t head;
  std::int64_t packs;
  int pack;

  RINGLET_HOST_DEVICE std::int64_t singles() const { return n - packs * pack; }
  /// The position of the i-th single element.
  RINGLET_HOST_DEVICE std::int64_t single(std::int64_t i) const {
    return i < head ? i : i + packs * pack;
  }
  /// The beginning of the i-th pack, at a multiple of 16 bytes in all runs.
  RINGLET_HOST_DEVICE std::int64_t begin(std::int64_t i) const { return head + i * pack; }
  /// The division of elements [first, last) of the run, counted from `first`.
  RINGLET_HOST_DEVICE VectorSpan part(std::int64_t first, std::int64_t last) const {
    const std::int64_t whole = -std::int64_t{pack};
    const std::int64_t most = head + packs * pack < last ? head + packs * pack : last;
    const std::int64_t begin = first < head ? head : head + ((first - head + pack - 1) & whole);
    if (begin >= most) return {last - first, last - first, 0, pack};
    return {last - first, begin - first, ((most - begin) & whole) / pack, pack};
  }
};

/// All elements are single if an address is no multiple of `itemsize`, or if the offsets from a
/// multiple of 16 differ. A null address is no run.
template <class... Pointers>
VectorSpan vector_span(std::int64_t n, std::size_t itemsize, const Pointers*... runs) {
  const std::uintptr_t places[] = {reinterpret_cast<std::uintptr_t>(runs)...};
  const auto pack = static_cast<int>(16 / itemsize);
  const std::uintptr_t offset = places[0] % 16;
  bool together = offset % itemsize == 0;
  for (std::uintptr_t place : places) together = together && (place == 0 || place % 16 == offset);
  const auto head = static_cast<std::int64_t>((16 - offset) % 16 / itemsize);
  if (!together || head > n) return {n, n, 0, pack};
  return {n, head, (n - head) / pack, pack};
}

/// The argument of vector_span for a run of numbers half as wide: where the runs have a pack, these
/// have 8 bytes at a multiple of 8.
inline const void* as_wide(const void* halves) {
  return reinterpret_cast<const void*>(2 * reinterpret_cast<std::uintptr_t>(halves));
}

}  // namespace ringlet::cuda
