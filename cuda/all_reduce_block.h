// The all-reduce of one block of one rank, written once for the device and for tests. A device runs
// it with DeviceBlock (all_reduce.cu), tests on the host with a simulated one. A Block has
//   load<S, kWidth>(from)   kWidth elements: as they are where S is their type, else widened to S
//   store(to, values)       the reverse, rounded
//   each(n, sources, load, fold, store)   for every i of [0, n), divided over its threads: v =
//                           load(0, i), v = fold(v, load(k, i)) for every k of [1, sources),
//                           store(i, v)
// and the operations that its signals require (all_reduce_signals.h).
//
// Why no two accesses race. A rank alone writes its data, its staging and its own column of its
// peers' flags. It writes, synchronises its threads and then releases a signal; a reader acquires
// that signal and synchronises its threads before they read. Data that a peer may still be reading
// is overwritten in two places:
//   ring     a gathered piece overwrites the rank's own part of the sum, and new partial sums the
//            slots of the last segment's: the next rank has read both, as the sums that arrive now
//            passed through it
//   direct   a gathered piece overwrites data that its owner read before it released the sum
// Behind the last step a rank ends only after its readers have signalled that they are done. No
// shared memory is used.
#pragma once

#include "ringlet/cuda/all_reduce_signals.h"
#include "ringlet/cuda/combine.h"
#include "ringlet/cuda/pack.h"

namespace ringlet::cuda {

template <class S, int kWidth>
struct Values {
  S of[kWidth];
};

template <class T, CombineOp op, Route route, class Block>
class AllReduceBlock {
 public:
  using S = sum_t<T>;

  /// Block `index` of rank `rank`.
  RINGLET_BLOCK_CODE AllReduceBlock(const Block& block, const AllReduceRun& run, int rank,
                                    int index)
      : block_(block), run_(run), rank_(rank), index_(index), signals_(block, run, rank, index) {}

  /// Stops if a wait times out, on this rank or on a peer.
  RINGLET_BLOCK_CODE void run() const {
    constexpr bool ring = route == Route::ring;
    const Peers readers = ring ? signals_.next() : signals_.others();
    signals_.raise(readers, AllReducePlan::kReady);
    if (ring ? reduce_by_ring() : reduce_directly()) signals_.end(readers);
  }

 private:
  RINGLET_BLOCK_CODE const AllReducePlan& plan() const { return run_.plan; }
  RINGLET_BLOCK_CODE T* data(int rank) const { return static_cast<T*>(run_.view.data[rank]); }
  RINGLET_BLOCK_CODE S* slot(int rank, int slot) const {
    return static_cast<S*>(run_.view.staging[rank]) + plan().slot_begin(index_, slot);
  }

  // ---- schedules ---------------------------------------------------------------------------

  RINGLET_BLOCK_CODE bool reduce_by_ring() const {
    const Peers previous = signals_.previous();
    const int source = previous.first, last = plan().ring_steps() - 1;
    for (std::int64_t segment = 0; segment < plan().segments; ++segment)
      for (int step = 0; step <= last; ++step) {
        if (!signals_.wait(previous, plan().signal(segment, step), step, segment)) return false;
        const RingStep now = plan().ring_step(rank_, step);
        const Part part = plan().part(now.piece, segment, index_);
        if (now.gathers)
          copy(source, part);
        else if (now.first)
          add(data(source) + part.begin, part, now);
        else
          add(slot(source, now.from_slot), part, now);
        if (step < last) signals_.raise(signals_.next(), plan().signal(segment, step + 1));
      }
    return true;
  }

  RINGLET_BLOCK_CODE bool reduce_directly() const {
    if (!signals_.wait(signals_.others(), AllReducePlan::kReady, 0, 0)) return false;
    for (std::int64_t segment = 0; segment < plan().segments; ++segment) {
      add_all(plan().part(rank_, segment, index_));
      signals_.raise(signals_.others(), plan().signal(segment, 1));
      for (int i = 1; i < plan().ranks; ++i) {
        const int source = plan().around(rank_ + i);
        if (!signals_.wait({source, 1}, plan().signal(segment, 1), 1, segment)) return false;
        copy(source, plan().part(source, segment, index_));
      }
    }
    return true;
  }

  // ---- operations on a part ----------------------------------------------------------------

  /// The block's `each` with load<kWidth>(k, i), over elements [0, count): packs first, then single
  /// elements.
  template <class Load, class Fold, class Store>
  RINGLET_BLOCK_CODE void each(std::int64_t count, int sources, const Load& load, const Fold& fold,
                               const Store& store) const {
    const std::int64_t packs = run_.packed ? count / kPack<T> : 0, rest = packs * kPack<T>;
    block_.each(
        packs, sources,
        [&](int k, std::int64_t i) { return load.template operator()<kPack<T>>(k, i * kPack<T>); },
        fold, [&](std::int64_t i, const auto& values) { store(i * kPack<T>, values); });
    block_.each(
        count - rest, sources,
        [&](int k, std::int64_t i) { return load.template operator()<1>(k, rest + i); }, fold,
        [&](std::int64_t i, const auto& values) { store(rest + i, values); });
  }

  struct Combine {
    template <int kWidth>
    RINGLET_BLOCK_CODE Values<S, kWidth> operator()(Values<S, kWidth> sum,
                                                    const Values<S, kWidth>& next) const {
      RINGLET_BLOCK_UNROLL
      for (int j = 0; j < kWidth; ++j) sum.of[j] = combined<op>(sum.of[j], next.of[j]);
      return sum;
    }
  };

  template <int kWidth>
  RINGLET_BLOCK_CODE void store_whole(std::int64_t at, Values<S, kWidth> sum) const {
    RINGLET_BLOCK_UNROLL
    for (int j = 0; j < kWidth; ++j) sum.of[j] = scaled(sum.of[j], static_cast<S>(run_.scale));
    block_.store(data(rank_) + at, sum);
  }

  /// The earlier sum (the left operand) plus this rank's data.
  template <class From>
  RINGLET_BLOCK_CODE void add(const From* from, const Part& part, const RingStep& step) const {
    const T* mine = data(rank_) + part.begin;
    const auto load = [&]<int kWidth>(int k, std::int64_t i) {
      return k == 0 ? block_.template load<S, kWidth>(from + i)
                    : block_.template load<S, kWidth>(mine + i);
    };
    if (step.last)
      return each(part.count, 2, load, Combine(),
                  [&](std::int64_t i, const auto& sum) { store_whole(part.begin + i, sum); });
    S* to = slot(rank_, step.to_slot);
    each(part.count, 2, load, Combine(),
         [&](std::int64_t i, const auto& sum) { block_.store(to + i, sum); });
  }

  /// In rank order.
  RINGLET_BLOCK_CODE void add_all(const Part& part) const {
    each(
        part.count, plan().ranks,
        [&]<int kWidth>(int rank, std::int64_t i) {
          return block_.template load<S, kWidth>(data(rank) + part.begin + i);
        },
        Combine(), [&](std::int64_t i, const auto& sum) { store_whole(part.begin + i, sum); });
  }

  RINGLET_BLOCK_CODE void copy(int source, const Part& part) const {
    const T* from = data(source) + part.begin;
    T* to = data(rank_) + part.begin;
    each(
        part.count, 1,
        [&]<int kWidth>(int, std::int64_t i) { return block_.template load<T, kWidth>(from + i); },
        [](const auto& only, const auto&) { return only; },
        [&](std::int64_t i, const auto& values) { block_.store(to + i, values); });
  }

  const Block& block_;
  const AllReduceRun& run_;
  int rank_;
  int index_;
  AllReduceSignals<Block> signals_;
};

}  // namespace ringlet::cuda
