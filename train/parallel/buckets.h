// Buckets: the contiguous slices of a gradient arena that are reduced in order.
#pragma once

#include <cstdint>
#include <vector>

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
std::vector<Bucket> cut_buckets(std::int64_t numel, std::int64_t first, std::int64_t cap,
                                const std::vector<Bucket>& alone = {});

}  // namespace ringlet::train
