// Group: the ranks that work together, as a value. A group of one returns at once from everything.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/alarm.h"
#include "ringlet/comm/pieces.h"
#include "ringlet/comm/store.h"
#include "ringlet/core/tensor.h"

namespace ringlet::comm {

/// avg divides the sum by the number of ranks; floating types only.
enum class ReduceOp : std::uint8_t { sum, max, avg };
/// automatic = direct. native = the transport's own engine (gloo, NCCL). in_kernel_… are for ranks
/// that are threads of one process and share a GPU: there an all-reduce is one launch, of the bits
/// of ring or direct, and all else goes as by those.
enum class Algorithm : std::uint8_t {
  automatic,
  ring,
  direct,
  native,
  in_kernel_ring,
  in_kernel_direct
};
/// Of tensors on a CPU: automatic = thread within one process, shm on one host, else gloo. Of
/// tensors on GPUs: thread within one process, else nccl; asked for nccl, threads with a GPU each
/// use it, too.
enum class TransportKind : std::uint8_t { automatic, thread, shm, gloo, nccl };

std::string_view name(ReduceOp op);          // "sum"
std::string_view name(Algorithm algorithm);  // "ring"
std::string_view name(TransportKind kind);   // "shm"
/// The one of this name ("auto" is automatic); throws InputError with the known names.
Algorithm parse_algorithm(std::string_view name);
TransportKind parse_transport(std::string_view name);

/// A collective under way. Copies are the same one. Dropped, it still runs to its end.
class Work {
 public:
  /// Returns when the result is there; rethrows what went wrong on any rank. On a device, when it
  /// is there for what this thread gives the device from now on.
  void wait() const;
  /// Whether wait() would return at once.
  bool done() const;

 private:
  friend class Group;
  struct State;
  std::shared_ptr<State> state_;  // empty: done at once
};

struct GroupOptions {
  TransportKind transport = TransportKind::automatic;
  Algorithm algorithm = Algorithm::automatic;
  /// Longest wait for the other ranks in one collective.
  Timeout timeout = std::chrono::minutes(5);
  /// Longest message: longer pieces go in segments. 0: what suits the device. Tests make it small.
  std::int64_t segment_bytes = 0;
  /// Counts the seconds of stats() by the device's clock: what collectives take its stream, and
  /// what callers' streams wait for them. For benches on GPUs.
  bool timed = false;
  /// Prints each step of each collective of this rank as a table (throughput --trace).
  std::ostream* trace = nullptr;
  /// Told, in a line, what is slower or riskier here than it could be; once, on one of the ranks.
  std::function<void(const std::string&)> on_note = {};
};

/// Counted since the group was made.
struct GroupStats {
  std::uint64_t collectives = 0;
  std::uint64_t bytes_sent = 0;  // over the wire; nothing is known of a native engine's
  // By the host's clock, unless GroupOptions::timed.
  double seconds_running = 0;  // in collectives
  double seconds_waited = 0;   // callers in Work::wait
};

class Group {
 public:
  Group() = default;  // a world of one
  /// All ranks call it with the same store, size and options; `id` separates groups in one store.
  Group(std::shared_ptr<Store> store, std::shared_ptr<Alarm> alarm, int rank, int size,
        GroupOptions options = {}, const std::string& id = "world");

  int rank() const;
  int size() const;
  /// As given, but for the transport, which is the one in use; asked for nccl, that.
  const GroupOptions& options() const;
  /// The one of tensors on `device`.
  TransportKind transport(Device device) const;
  GroupStats stats() const;

  // Tensors are on a CPU or on the rank's GPU, in one collective all or none. Ranks that are
  // threads of one process may share a GPU. A graph that collectives were captured in goes before
  // the group. All ranks must call the same collectives in the same order with equal dtype, sizes
  // and pieces. Tensors are written when the Work is done and must not be touched before. Sums of
  // bf16 and f16 are added in f32 and rounded once. Under `direct` each element is added in rank
  // order, so that its bits depend on nothing but the ranks' values; under `ring` also on where it
  // lies, and as partial sums travel there, those of bf16 and f16 do so as f32, in twice the bytes.
  // A call that differs, a rank that is late by the timeout or gone: Error, on all.

  /// In place.
  Work all_reduce(Tensor tensor, ReduceOp op = ReduceOp::sum) const;
  /// Several tensors of one dtype as if they lay end to end: small ones cost one latency. Where
  /// they do not lie so, they are copied through a buffer of their whole size.
  Work all_reduce(std::vector<Tensor> tensors, ReduceOp op = ReduceOp::sum) const;
  /// output (pieces[rank].count) = the reduction of that piece of every rank's `input`; output may
  /// be that piece of input itself. `ring` uses input as its scratch.
  Work reduce_scatter(Tensor output, Tensor input, const Pieces& pieces,
                      ReduceOp op = ReduceOp::sum) const;
  /// pieces[p] of output = rank p's `input` (pieces[p].count); input may be that piece of output.
  Work all_gather(Tensor output, Tensor input, const Pieces& pieces) const;
  Work broadcast(Tensor tensor, int root = 0) const;
  /// Behind it this thread's work on a device runs behind all collectives of the group there, too.
  void barrier() const;
  /// A few bytes of every rank, of any length, in rank order.
  std::vector<std::string> all_gather_bytes(const std::string& bytes) const;

  /// The ranks of this group named in `ranks` (ascending), as a group; every rank of this one calls
  /// it, those not named get a group of one.
  Group subgroup(const std::vector<int>& ranks) const;
  /// The same with options of its own.
  Group subgroup(const std::vector<int>& ranks, GroupOptions options) const;

  const std::shared_ptr<Alarm>& alarm() const;

 private:
  friend class Together;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ringlet::comm
