// How the blocks of a grid divide a run of parameters: into tiles with edges at packs. Segments may
// begin anywhere; only the packs at their edges are processed element by element.
#pragma once

#include "ringlet/cuda/vector_span.h"

namespace ringlet::cuda {

/// In elements; far more than a block has threads, so that the search for segments costs nothing.
inline constexpr std::int64_t kUpdateTile = 4096;

struct UpdateTiles {
  VectorSpan run;

  RINGLET_HOST_DEVICE std::int64_t count() const {
    return (run.n + missing() + kUpdateTile - 1) / kUpdateTile;
  }
  RINGLET_HOST_DEVICE std::int64_t begin(std::int64_t tile) const {
    return tile == 0 ? 0 : tile * kUpdateTile - missing();
  }
  RINGLET_HOST_DEVICE std::int64_t end(std::int64_t tile) const {
    const std::int64_t end = (tile + 1) * kUpdateTile - missing();
    return end < run.n ? end : run.n;
  }

 private:
  /// The first tile is shorter by this many elements, so that the later ones begin with a pack.
  RINGLET_HOST_DEVICE std::int64_t missing() const {
    return run.packs > 0 && run.head > 0 ? run.pack - run.head : 0;
  }
};

}  // namespace ringlet::cuda
