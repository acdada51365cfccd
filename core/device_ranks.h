// Ranks that share a device; one launch reduces the elements of all of them.
#pragma once

#include <cstdint>
#include <span>

#include "ringlet/core/dtype.h"
#include "ringlet/core/ops/combine.h"

namespace ringlet {

/// The algorithm: pieces pass around a ring, or each rank adds its piece of all ranks in one step.
enum class Route : std::uint8_t { ring, direct };

/// See Backend::make_ranks. Not for concurrent use by several threads or streams.
class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;
  /// data[r] (edges.back()), of rank r, = scale * the sum, or maximum, over all ranks' data;
  /// enqueued on this thread's stream of the device. Piece r is [edges[r], edges[r + 1]) and is
  /// complete first at rank r. edges[0] is 0; the other edges are multiples of 16 or the end of the
  /// data. The sum of piece r starts at rank r + 1 in a ring, at rank 0 if direct. Sums of bf16 and
  /// f16 are in f32 and rounded once; `scale` is 1 for integers and maxima. Addresses are multiples
  /// of an element's size. May be captured. Error if an earlier call has failed.
  virtual void all_reduce(std::span<void* const> data, std::span<const std::int64_t> edges,
                          DType dtype, Route route, CombineOp op, double scale) = 0;
};

}  // namespace ringlet
