// Ranks that share a device, all of whose elements one launch reduces.
#pragma once

#include <cstdint>
#include <span>

#include "ringlet/core/dtype.h"
#include "ringlet/core/ops/combine.h"

namespace ringlet {

/// How elements meet: piece by piece around a ring, or all ranks' of a piece at once.
enum class Route : std::uint8_t { ring, direct };

/// See Backend::make_ranks. Not for several threads, nor streams, at once.
class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;
  /// data[r], of rank r, (edges.back()) = scale * the sum, or maximum, over all ranks' data, given
  /// to this thread's stream of the device. Piece r, whole first at rank r, is [edges[r],
  /// edges[r + 1]); edges[0] is 0, the others but for the end of the data are multiples of 16.
  /// Along the ring a piece's sum begins at the rank behind r, directly at rank 0. bf16 and f16 are
  /// added in f32 and rounded once; `scale` is 1 for integers and maxima. Addresses are multiples
  /// of an element's size. May be captured. Error where an earlier one has failed.
  virtual void all_reduce(std::span<void* const> data, std::span<const std::int64_t> edges,
                          DType dtype, Route route, CombineOp op, double scale) = 0;
};

}  // namespace ringlet
