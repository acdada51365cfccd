// How the blocks of an in-kernel all-reduce signal their progress to each other. A Block provides
//   together(n, body)   a barrier; body(i) for every i of [0, n), a thread each; a barrier; then
//                       whether all were true, on all threads
//   acquire(flag), release(flag, value), now() in nanoseconds, error(word), set_error(word, value)
#pragma once

#include "ringlet/cuda/all_reduce_plan.h"

#if defined(__CUDACC__)
#define RINGLET_BLOCK_CODE __device__ __forceinline__
#define RINGLET_BLOCK_UNROLL _Pragma("unroll")
#else
#define RINGLET_BLOCK_CODE inline
#define RINGLET_BLOCK_UNROLL
#endif

namespace ringlet::cuda {

/// The arguments of a launch.
struct AllReduceRun {
  PeerView view;
  AllReducePlan plan;
  bool packed;                     // every rank's data begins at a multiple of 16 bytes
  double scale;                    // multiplies the sums
  std::uint64_t wait_nanoseconds;  // the longest wait for a peer
};

/// Ranks first, first + 1, …, modulo the number of ranks.
struct Peers {
  int first;
  int count;
};

template <class Block>
class AllReduceSignals {
 public:
  RINGLET_BLOCK_CODE AllReduceSignals(const Block& block, const AllReduceRun& run, int rank,
                                      int index)
      : block_(block),
        run_(run),
        rank_(rank),
        index_(index),
        begin_(block.acquire(flag(rank, rank))) {}

  RINGLET_BLOCK_CODE Peers next() const { return {plan().around(rank_ + 1), 1}; }
  RINGLET_BLOCK_CODE Peers previous() const { return {plan().around(rank_ - 1), 1}; }
  RINGLET_BLOCK_CODE Peers others() const { return {plan().around(rank_ + 1), plan().ranks - 1}; }

  /// Signals the progress of this block to `peers`.
  RINGLET_BLOCK_CODE void raise(Peers peers, std::uint32_t signal) const {
    block_.together(peers.count, [&](int i) {
      block_.release(flag(plan().around(peers.first + i), rank_), begin_ + signal);
      return true;
    });
  }

  /// Waits until all of `peers` have raised `signal`; false if a wait times out, on any rank.
  RINGLET_BLOCK_CODE bool wait(Peers peers, std::uint32_t signal, int step,
                               std::int64_t segment) const {
    return block_.together(peers.count, [&](int i) {
      const int peer = plan().around(peers.first + i);
      return spin(flag(rank_, peer), begin_ + signal,
                  {rank_, peer, step, static_cast<std::uint32_t>(segment)});
    });
  }

  /// Waits until `readers` have read everything, then advances the base of the next collective's
  /// signals.
  RINGLET_BLOCK_CODE void end(Peers readers) const {
    raise(others(), plan().done());  // also peers that wait for this rank only in another route
    if (wait(readers, plan().done(), Stall::kEnd, plan().segments))
      raise({rank_, 1}, plan().done());
  }

 private:
  RINGLET_BLOCK_CODE const AllReducePlan& plan() const { return run_.plan; }

  /// The flag of rank `at` in which rank `from` stores its progress.
  RINGLET_BLOCK_CODE std::uint32_t* flag(int at, int from) const {
    return run_.view.flags[at] + index_ * plan().ranks + from;
  }

  /// The wait of one thread. The clock and the error word, which is in host memory, are polled only
  /// every kPolls rounds.
  RINGLET_BLOCK_CODE bool spin(const std::uint32_t* at, std::uint32_t target,
                               const Stall& stall) const {
    constexpr unsigned kPolls = 64;
    if (reached(block_.acquire(at), target)) return true;
    const std::uint64_t begin = block_.now();
    for (unsigned polls = 1;; ++polls) {
      if (reached(block_.acquire(at), target)) return true;
      if (polls % kPolls != 0) continue;
      const std::uint64_t error = block_.error(run_.view.error);
      if (error == 0 && block_.now() - begin < run_.wait_nanoseconds) continue;
      if (error == 0 || stall.word() < error) block_.set_error(run_.view.error, stall.word());
      return false;
    }
  }

  const Block& block_;
  const AllReduceRun& run_;
  int rank_;
  int index_;
  std::uint32_t begin_;  // the base of this collective's signals
};

}  // namespace ringlet::cuda
