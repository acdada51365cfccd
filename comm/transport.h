// A transport executes one step of a schedule: all its sends and receives together. The received
// data is a view of the peer's bytes, read in place if the peer's memory can be accessed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ringlet/comm/types.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet::comm {

/// The description of a rank's call. Every message carries it, so that two ranks that disagree
/// detect this in the first step.
struct Call {
  std::uint64_t sequence = 0;  // the group's collectives, counted from 1
  std::int64_t count = 0;      // elements of the whole buffer, to the end of its pieces
  std::uint64_t layout = 0;    // hash_layout() of the pieces, segments and logical ranks
  std::int32_t root = 0;
  Op op = Op::barrier;
  ReduceOp reduce = ReduceOp::sum;
  DType dtype = DType::u8;
  Algorithm algorithm = Algorithm::direct;

  bool operator==(const Call&) const = default;
};
static_assert(sizeof(Call) % sizeof(std::uint64_t) == 0);

/// Bytes [offset, offset + nbytes) of the collective's buffer: sent to a peer, or received from it.
struct Transmission {
  int peer;
  std::size_t offset;
  std::size_t nbytes;
};

/// A tensor's bytes, for writing without a change of its version, which changed when the collective
/// was queued. Another change would mark other parts of the storage that were saved since and that
/// no collective writes.
inline std::byte* announced_bytes(const Tensor& tensor) {
  return tensor ? tensor.storage()->data() + tensor.storage_offset() : nullptr;
}

class Engine;

/// Where the bytes of a step's receives lie, in their order.
using Views = std::span<const std::byte* const>;

/// Runs one collective at a time, from one thread at a time: begin, steps (each exchange, release),
/// finish; abandon after an exception. The timeout or the alarm ends every wait, with an Error that
/// gives the reason.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Starts a collective that sends from `buffer`.
  virtual void begin(const Call& call, const Tensor& buffer) = 0;
  /// Starts a step's sends and waits for its receives. The sent bytes must not be overwritten
  /// before finish(), unless data received since proves that the peer has them, as in all our
  /// schedules. The views are valid until release(); work on them in between is enqueued on the
  /// stream that is then current. With `in_place` they may be the places themselves, already
  /// filled.
  virtual Views exchange(std::span<const Transmission> sends,
                         std::span<const Transmission> receives, bool in_place) = 0;
  /// Ends the step: the peers may overwrite what was received.
  virtual void release() = 0;
  /// How many segments alternate, step by step, so that one moves while another is added.
  virtual std::int64_t segments_at_once() const { return 1; }
  /// Waits until the peers have received all that was sent.
  virtual void finish() = 0;
  /// Called after the group has failed: nothing here reads the views any more. Waits until no peer
  /// reads the buffer any more.
  virtual void abandon() noexcept = 0;

  /// A step's sends of at most so many bytes, on a CPU, are copied: they may be overwritten after
  /// exchange().
  virtual std::size_t copies_sends() const { return 0; }

  /// Where the ranks' buffers were in this rank's latest exchange with all of them, this rank's
  /// included.
  virtual std::vector<Device> devices() const { return {}; }

  /// Whether a peer has started a send that this rank has not received. Between collectives.
  virtual bool has_sent(int /*peer*/) const { return false; }

  /// Whether a collective can be captured: the first one makes resources, which no capture may.
  virtual bool is_ready_for_capture() const { return true; }

  /// An object that the ranks of this process share; the first call makes it.
  virtual std::shared_ptr<void> shared(const std::function<std::shared_ptr<void>()>& make) {
    return make();
  }

  /// The transport's own collectives, the yardstick for schedules; null if there are none.
  virtual Engine* engine() { return nullptr; }
};

}  // namespace ringlet::comm
