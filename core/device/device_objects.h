// The objects that a DeviceBackend makes for a device, and DeviceWork, which makes most of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

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

/// A collective of ranks that read each other's memory. Piece r is [edges[r], edges[r + 1]) and is
/// complete first at rank r. edges[0] is 0; the other edges are multiples of 16 or the end of the
/// data.
struct PeerCall {
  std::span<void* const> data;  // (edges.back()) of each rank, at multiples of an element's size
  std::span<const std::int64_t> edges;
  DType dtype;
  CombineRoute route = CombineRoute::direct;
  CombineOp op = CombineOp::sum;
  double scale = 1;  // of the sums; 1 for integers and maxima
  /// Both: an all-reduce. One alone, which is direct: a reduce-scatter, or an all-gather of what is
  /// in place.
  bool reduces = true, gathers = true;
  /// Where a reduce-scatter writes the sum of piece r. Empty: to its place in data[r].
  std::span<void* const> own = {};
};

/// Ranks on devices that read each other's memory; one launch on each computes for those that share
/// it. Not for concurrent use by several threads or streams of one device.
class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;
  /// The part of the ranks of `device`, enqueued on this thread's stream of it; it ends when all
  /// devices have the call. A sum starts at rank r + 1 in a ring; direct ones are added by the
  /// tree. Sums of bf16 and f16 are in f32 and rounded once. May be captured; all devices then
  /// replay equal calls. Error if an earlier call has failed. On several devices the hosts of all
  /// have met before a call or a replay. Until the last one has enqueued its part, calls of the
  /// driver that may wait for running kernels are put off.
  virtual void run(const PeerCall& call, Device device) = 0;
  /// Loads what run() needs: a driver may wait for the device's work to do so.
  virtual void load(const PeerCall& /*call*/, Device /*device*/) {}
  /// Ends launches that wait for a rank. The host's next wait for a device throws. From any thread.
  virtual void abandon() noexcept {}
};

/// The work of a device type: streams, events, times, graphs, and links between devices. The
/// defaults are those of a synchronous device.
class DeviceWork {
 public:
  virtual ~DeviceWork() = default;
  /// See core/device/device_time.h.
  virtual bool is_asynchronous() const { return false; }
  virtual std::unique_ptr<DeviceTime> device_time(Device device);
  virtual void hold(Device, double /*seconds*/) {}
  /// See core/device/stream.h; null for a synchronous device.
  virtual std::unique_ptr<DeviceStream> make_stream(Device, StreamPriority) { return nullptr; }
  virtual std::unique_ptr<DeviceEvent> make_event(Device) { return nullptr; }
  /// The stream of this thread's work on the device, a cudaStream_t on cuda. The call also makes
  /// the device the thread's current one, for other libraries.
  virtual void* stream(Device) { return nullptr; }
  /// Whether any thread is capturing that stream.
  virtual bool is_captured(Device) { return false; }
  /// Whether copies between these two different devices use a direct link; false: through host
  /// memory.
  virtual bool has_link(Device /*to*/, Device /*from*/) { return true; }
  /// The PCI address on the host, for example "0000:3b:00.0", the same in every process; empty if
  /// unknown.
  virtual std::string bus_id(Device) const { return ""; }
  /// Ranks on these devices, which have links to each other; a rank waits at most `seconds` for
  /// another. May be called during a capture. Null if these devices run none.
  virtual std::unique_ptr<DeviceRanks> make_ranks(std::span<const Device> /*of_ranks*/,
                                                  double /*seconds*/) {
    return nullptr;
  }
  /// The most ranks that make_ranks() takes on several devices; 0: none.
  virtual int most_ranks() const { return 0; }

  /// Why this device cannot capture work; empty if it can. capture() calls the next three.
  virtual std::string why_no_graphs(Device) const { return "it has no graphs"; }
  virtual void begin_capture(Device) {}
  /// Ends the capture, also if it throws.
  virtual std::unique_ptr<DeviceGraph> end_capture(Device) { return nullptr; }
  virtual void abandon_capture(Device) {}
  /// Until the capture ends, this thread's work on its current stream has the graph's memory, too.
  virtual void join_capture(Device) {}
};

/// The message for devices without DeviceWork::has_link.
std::string without_link(Device to, Device from);

}  // namespace ringlet
