// Buckets: the contiguous slices of a gradient arena that are reduced one after the other.
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
/// order in which backward completes them: from the end of the arena, where the loss head lies,
/// over the layers from last to first, to the embeddings.
/// The ranges `alone`, ascending, are buckets of their own.
std::vector<Bucket> cut_buckets(std::int64_t numel, std::int64_t first, std::int64_t cap,
                                const std::vector<Bucket>& alone = {});

}  // namespace ringlet::train
