// The elements of a run of parameters that an optimizer's step updates in the same way: a table in
// device memory. One kernel call then updates a whole arena, with any mix of segments.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet {

/// Elements [begin, end) of a run.
struct StepSegment {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t decays;  // 0: no weight decay

  friend bool operator==(const StepSegment&, const StepSegment&) = default;
};

/// Ordered and disjoint; elements in no segment are not updated.
struct StepSegments {
  const StepSegment* table;  // (count)
  std::int64_t count;

  /// The first segment that ends after `element`; count if there is none.
  RINGLET_HOST_DEVICE std::int64_t first_after(std::int64_t element) const {
    std::int64_t low = 0, high = count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (table[middle].end > element)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  RINGLET_HOST_DEVICE double decay_of(std::int64_t segment, double weight_decay) const {
    return table[segment].decays != 0 ? weight_decay : 0;
  }
};

/// Calls body(segment, begin, end) for the part of elements [begin, end) in each segment.
template <class Body>
RINGLET_HOST_DEVICE void for_segments(const StepSegments& segments, std::int64_t begin,
                                      std::int64_t end, Body&& body) {
  for (std::int64_t i = segments.first_after(begin); i < segments.count; ++i) {
    const StepSegment segment = segments.table[i];
    if (segment.begin >= end) return;
    body(i, segment.begin < begin ? begin : segment.begin, segment.end < end ? segment.end : end);
  }
}

}  // namespace ringlet
