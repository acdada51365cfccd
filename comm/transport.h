// A transport executes one step of a schedule: all its sends and receives together. What is
// received is a view of the peer's bytes, read in place where the peer's memory can be seen.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "ringlet/comm/call.h"

namespace ringlet::comm {

/// Bytes [offset, offset + nbytes) of the collective's buffer, sent to a peer, or the place of what
/// is received from it.
struct Transmission {
  int peer;
  std::size_t offset;
  std::size_t nbytes;
};

/// For writing a tensor whose version moved on when its collective was queued: to move it again
/// would mark what others have saved of its storage since, and no collective writes.
inline std::byte* announced_bytes(const Tensor& tensor) {
  return tensor ? tensor.storage()->data() + tensor.storage_offset() : nullptr;
}

/// Called with the bytes received, one pointer for each receive of the step.
using UseViews = std::function<void(std::span<const std::byte* const> views)>;

/// The transport's own collectives, where it has some: the yardstick for ours. False: not that one.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void all_reduce(const Call& call, Tensor& tensor) = 0;
  /// `output` may be this rank's piece of `input`.
  virtual bool reduce_scatter(const Call& /*call*/, Tensor& /*output*/, const Tensor& /*input*/,
                              const Pieces& /*pieces*/) {
    return false;
  }
  /// This rank's piece lies in place.
  virtual void all_gather(const Call& call, Tensor& output, const Pieces& pieces) = 0;
  virtual void broadcast(const Call& call, Tensor& tensor) = 0;
  virtual bool barrier(const Call& /*call*/) { return false; }
};

/// One collective at a time, from one thread at a time: begin, steps (each send, receive), finish;
/// abandon after an exception. Every wait ends by the timeout or the alarm, with an Error that says
/// why.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Starts a collective whose sends come from `buffer`.
  virtual void begin(const Call& call, const Tensor& buffer) = 0;
  /// The first half of a step: starts its sends. What was sent must not be overwritten before
  /// finish(), unless what came in since proves that the peer has it, which holds for all of our
  /// schedules.
  virtual void send(std::span<const Transmission> sends) = 0;
  /// The second half: waits for the receives and calls `use` with all of them; the views end with
  /// the call. With `in_place` they may be the places themselves, already filled.
  virtual void receive(std::span<const Transmission> receives, bool in_place,
                       const UseViews& use) = 0;
  /// How many segments take turns, step by step, so that one moves while another is added.
  virtual std::int64_t segments_at_once() const { return 1; }
  /// Waits until the peers have all that was sent.
  virtual void finish() = 0;
  /// Waits until no peer reads the buffer any more; the group has failed.
  virtual void abandon() noexcept = 0;

  /// Whether a collective may be captured already: what the first makes, no capture may.
  virtual bool is_ready_for_capture() const { return true; }

  /// Null where there is none.
  virtual Engine* engine() { return nullptr; }
};

/// A rank's place in a group that is being made.
struct Membership {
  std::shared_ptr<Store> store;
  std::shared_ptr<Alarm> alarm;
  int rank;
  int size;
  Timeout timeout;
  std::string id;
  std::function<void(const std::string&)> on_note = {};  // may be empty

  /// On the rank of the group that is the first with this topic.
  void note(const std::string& topic, const std::string& line) const;
  std::string key(const std::string& what) const { return id + "/" + what; }
  /// The value of a key that another rank sets; throws when the alarm is raised or after the
  /// timeout, saying what it waited for.
  std::string get(const std::string& what, const std::string& meaning) const;
};

std::unique_ptr<Transport> make_thread_transport(const Membership& membership);
std::unique_ptr<Transport> make_shm_transport(const Membership& membership);
std::unique_ptr<Transport> make_gloo_transport(const Membership& membership);
/// Whether this build has gloo, and that transport with it.
bool has_gloo();
/// Of tensors on GPUs, beside the group's transport `host`, over which the ranks compare their
/// calls first. Null in a build without NCCL.
std::unique_ptr<Transport> make_nccl_transport(const Membership& membership, Transport& host);
/// What a build without NCCL says; empty in one with it.
std::string why_no_nccl();
/// Error where there is no library of NCCL's to use.
void check_nccl();

/// Agrees with the other ranks on the transport of tensors on a CPU, and makes it; `kind` says
/// which it was. To nccl that is whichever suits.
std::unique_ptr<Transport> make_transport(TransportKind& kind, const Membership& membership);

}  // namespace ringlet::comm
