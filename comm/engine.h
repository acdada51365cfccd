// A collective in flight, and the interface of engines. An engine is a schedule over a transport,
// gloo's own, NCCL's own, or one launch on each GPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "ringlet/comm/device_clock.h"
#include "ringlet/comm/schedule.h"
#include "ringlet/comm/transport.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/stream.h"

namespace ringlet::comm {

/// One rank's part of a collective, from its call to its end.
struct Collective {
  Call call = {};
  Schedule schedule = {};
  Pieces pieces = {};         // of the buffer, or of each node in it, in elements
  std::int64_t segments = 1;  // of each piece
  Tensor buffer = {};         // (n): sent from, and received into
  std::vector<std::int64_t> nodes{
      0};              // where each of my nodes begins there; received into the first
  bool writes = true;  // to the buffer: its version advances
  Tensor own = {};     // (pieces[rank].count): where my piece is reduced to, if not in place
                       // (size, pieces[rank].count): where my piece of each rank goes
  /// Run before and after the engine, on its thread and stream.
  std::function<void()> before = {}, after = {};
  /// All that the collective reads and writes, until its end.
  std::vector<Tensor> tensors = {};

  CollectiveObserver* observer = nullptr;
  Engine* engine = nullptr;
  const SideStream* stream = nullptr;
  /// On the stream: it is ordered after `begin`, and `end` is recorded after it.
  std::shared_ptr<StreamEvent> begin = {}, end = {};
  std::shared_ptr<DeviceClock> waited = {};  // null: not timed
  bool captured = false;

  std::atomic<bool> done{false};
  std::exception_ptr error = {};                       // valid when done
  std::function<void(std::exception_ptr)> ended = {};  // Work::when_done

  /// Releases its tensors, in the order of the current stream.
  void release() {
    buffer = own = {};
    before = after = nullptr;
    tensors.clear();
  }
};

/// Executes collectives, one at a time.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Executes this rank's part of a collective on the current stream. On its return, on a CPU, the
  /// result is there and no peer reads the buffer; on a device all of this is enqueued. Throws
  /// Error for an op that the engine lacks.
  virtual void execute(const Collective& collective) = 0;
  /// Error unless execute() may enqueue this collective into the graph that is being captured.
  virtual void check_capturable(const Collective& collective);
  /// After an error of this rank: peers' kernels no longer wait for it.
  virtual void abandon() noexcept {}
};

/// The steps of the collective's schedule, for each of its segments.
std::unique_ptr<Engine> make_schedule_engine(Transport& transport, int rank, int size);

/// On a device: in stream order. On a CPU: in this thread, done when it returns.
inline void copy_bytes(Device device, std::byte* to, const std::byte* from, std::size_t nbytes) {
  if (nbytes > 0) backend(device.type).copy(to, device, from, device, nbytes);
}

}  // namespace ringlet::comm
