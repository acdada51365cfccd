#include "ringlet/train/parallel/buckets.h"

#include <algorithm>

#include "ringlet/core/base/error.h"

namespace ringlet::train {

std::vector<Bucket> cut_buckets(std::int64_t numel, std::int64_t first, std::int64_t cap,
                                const std::vector<Bucket>& alone) {
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
