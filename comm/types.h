// The vocabulary of collectives: their names, the pieces of a buffer, the options of a group, a
// collective in flight.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/store.h"
#include "ringlet/core/base/names.h"
#include "ringlet/core/ops/reduce.h"

namespace ringlet::comm {

class CollectiveObserver;
class Queue;
struct Collective;
struct GroupState;

enum class Op : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  barrier,
  // From here on: no reduction, and one schedule whatever the algorithm.
  gather,
  scatter,
  all_to_all,
  send  // both ends of a transfer between two ranks
};
inline constexpr EnumNames<Op, 9> kOpNames{
    "collective",
    {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier", "gather", "scatter",
     "all_to_all", "send"}};
/// Over the same element of every rank: sum, max, or the mean of floating types.
using ringlet::ReduceOp;
/// `native` is the transport's own engine (gloo, NCCL). The in_kernel_… algorithms are for ranks
/// that are threads of one process, on one GPU or on several with peer access. An all-reduce is one
/// launch on each, with the bits of ring or direct, as are a reduce-scatter and an all-gather of
/// in_kernel_direct; other collectives use ring or direct. `automatic` is in_kernel_direct for such
/// ranks if each has its own GPU, once a first collective by steps has shown that; else direct.
enum class Algorithm : std::uint8_t {
  automatic,
  ring,
  direct,
  native,
  in_kernel_ring,
  in_kernel_direct
};
inline constexpr EnumNames<Algorithm, 6> kAlgorithmNames{
    "algorithm", {"auto", "ring", "direct", "native", "in-kernel-ring", "in-kernel-direct"}};
/// Whether an all-reduce of this algorithm is one launch.
constexpr bool is_in_kernel(Algorithm algorithm) {
  return algorithm == Algorithm::in_kernel_ring || algorithm == Algorithm::in_kernel_direct;
}
/// For tensors on a CPU, `automatic` is thread within one process, shm on one host, else gloo. For
/// tensors on GPUs, it is thread within one process, else nccl. Given nccl, threads with a GPU each
/// use it, too.
enum class TransportKind : std::uint8_t { automatic, thread, shm, gloo, nccl };
inline constexpr EnumNames<TransportKind, 5> kTransportNames{
    "transport", {"auto", "thread", "shm", "gloo", "nccl"}};

constexpr std::string_view name(Op op) { return kOpNames(op); }
constexpr std::string_view name(Algorithm algorithm) { return kAlgorithmNames(algorithm); }
constexpr std::string_view name(TransportKind kind) { return kTransportNames(kind); }
/// The value of this name; throws InputError with the known names.
inline Algorithm parse_algorithm(std::string_view name) { return kAlgorithmNames.parse(name); }
inline TransportKind parse_transport(std::string_view name) { return kTransportNames.parse(name); }

/// Elements [offset, offset + count) of a buffer, owned by one rank.
struct Piece {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};
using Pieces = std::vector<Piece>;  // one per rank, in order, disjoint

/// Cuts [0, n) into near-equal parts with edges at multiples of `align`.
Pieces even_pieces(std::int64_t n, int parts, std::int64_t align = 1);

struct GroupOptions {
  TransportKind transport = TransportKind::automatic;
  Algorithm algorithm = Algorithm::automatic;
  /// Longest wait for a peer's next message. A collective of many steps may take longer.
  Timeout timeout = std::chrono::minutes(5);
  /// Longest message: longer pieces go in segments. 0: the device's default. Tests make it small.
  std::int64_t segment_bytes = 0;
  /// Measures the seconds of stats() by the device's clock: collectives on the group's stream, and
  /// the time that callers' streams wait for them. For benches on GPUs.
  bool timed = false;
  /// Receives each collective and its steps, for example a TracePrinter (throughput --trace).
  CollectiveObserver* observer = nullptr;
  /// Called with one line, on one rank, for a slow or risky setup or a store that does not answer.
  std::function<void(const std::string&)> on_note = {};
  /// Set by init_from_env() under `ringlet run --min-ranks`: the world may change. Subgroups do not
  /// have it.
  bool elastic = false;
};

/// A collective in flight. Copies refer to the same one. If dropped, it still runs to its end.
class Work {
 public:
  Work() = default;
  /// Returns when the result is there; rethrows errors of any rank. On a device it returns when the
  /// collective is enqueued; the current stream's later work is ordered after it.
  void wait() const;
  /// Whether wait() would return immediately.
  bool done() const;
  /// Calls `ended` with the error, or null, when the result is there: on the thread that ran the
  /// collective, or immediately. It must not throw. One per Work; on a CPU.
  void when_done(std::function<void(std::exception_ptr)> ended) const;

 private:
  friend struct GroupState;
  Work(std::shared_ptr<Queue> queue, std::shared_ptr<Collective> collective);
  std::shared_ptr<Queue> queue_;
  std::shared_ptr<Collective> collective_;  // null: done
};

/// For a scope in which this thread waits for each collective right after it starts it: the group's
/// own thread is not woken for them.
class CallerRuns {
 public:
  CallerRuns() { ++scopes_; }
  ~CallerRuns() { --scopes_; }
  CallerRuns(const CallerRuns&) = delete;
  CallerRuns& operator=(const CallerRuns&) = delete;
  static bool active() { return scopes_ > 0; }

 private:
  static inline thread_local int scopes_ = 0;
};

/// Counted since the group was made.
struct GroupStats {
  std::uint64_t collectives = 0;  // and transfers
  std::uint64_t bytes_sent = 0;   // by schedules; native engines are not counted
  // By the host's clock, unless GroupOptions::timed.
  double seconds_running = 0;  // in collectives, without transfers
  double seconds_waited = 0;   // callers in Work::wait, also for transfers
};

}  // namespace ringlet::comm
