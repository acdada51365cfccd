// Buckets: the contiguous slices of a gradient arena that are reduced in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ringlet/core/base/error.h"

namespace ringlet::train {

/// Elements [begin, end) of an arena.
struct Bucket {
  std::int64_t begin;
  std::int64_t end;
  bool operator==(const Bucket&) const = default;
};

/// Cuts [0, numel) into buckets of at most `cap` elements, the first of at most `first`, in the
/// order in which backward completes them. The loss head lies at the end of the arena and comes
/// first, then the layers from last to first, then the embeddings. The ranges `alone`, ascending,
/// are separate buckets.
inline std::vector<Bucket> cut_buckets(std::int64_t numel, std::int64_t first, std::int64_t cap,
                                       const std::vector<Bucket>& alone = {}) {
  RINGLET_CHECK(first > 0 && cap > 0, "[buckets] a bucket holds at least one element");
  std::vector<Bucket> buckets;
  std::int64_t end = numel;
  const auto cut_down_to = [&](std::int64_t edge) {
    while (end > edge) {
      const std::int64_t begin = std::max(edge, end - (buckets.empty() ? first : cap));
      buckets.push_back({begin, end});
      end = begin;
    }
  };
  for (auto range = alone.rbegin(); range != alone.rend(); ++range) {
    cut_down_to(range->end);
    buckets.push_back(*range);
    end = range->begin;
  }
  cut_down_to(0);
  return buckets;
}

}  // namespace ringlet::train
