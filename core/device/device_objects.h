// The objects that a DeviceBackend makes for a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/device.h"

namespace ringlet {

/// Which of a device's streams runs first where both could: `high` before the device's own stream,
/// `low` after it.
enum class StreamPriority { low, high };

/// The implementation of SideStream; see core/device/stream.h.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  /// Directs this thread's work for the device here, until leave() gets the returned value.
  virtual const void* enter() = 0;
  virtual void leave(const void* before) = 0;
};

/// The implementation of StreamEvent.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual void record() = 0;
  virtual void make_wait(Device waiting) = 0;
  virtual bool done() = 0;
};

/// A point in the time of a device; see core/device/device_time.h.
class DeviceTime {
 public:
  virtual ~DeviceTime() = default;
  /// Waits until this point is reached. Both times belong to one device.
  virtual double seconds_since(const DeviceTime& earlier) const = 0;
};

/// Captured work; see core/device/graph.h.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Enqueues the work on the stream of its capture, which must be this thread's; does not wait.
  virtual void replay() = 0;
  /// The number of kernels, copies and other operations.
  virtual std::size_t nodes() const = 0;
};

/// A copy from a device to the host, in flight; see core/tensor/host_copy.h.
class DeviceDownload {
 public:
  virtual ~DeviceDownload() = default;
  /// Waits until the copy is complete. The bytes are valid as long as this object exists.
  virtual const std::byte* wait() = 0;
};

/// How elements of several ranks are combined; see core/ops/combine.h.
enum class CombineOp { sum, max };
/// The algorithm: pieces pass around a ring, or each rank adds its piece of all ranks in one step.
enum class CombineRoute : std::uint8_t { ring, direct };

/// Ranks that share a device; one launch reduces the elements of all of them. Not for concurrent
/// use by several threads or streams.
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
                          DType dtype, CombineRoute route, CombineOp op, double scale) = 0;
};

}  // namespace ringlet
