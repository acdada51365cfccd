// All ranks of an in-kernel all-reduce on the host; each block runs the device code.
#pragma once

#include <limits>
#include <optional>

#include "block_simulation.h"
#include "ringlet/cuda/all_reduce_block.h"

namespace ringlet::cuda {

/// The Block of cuda/all_reduce_block.h; it reports every access to the simulation.
class SimulatedBlock {
 public:
  SimulatedBlock(BlockSimulation& simulation, int me) : simulation_(simulation), me_(me) {}

  template <class S, int kWidth, class X>
  Values<S, kWidth> load(const X* from) const {
    check_aligned(from, kWidth);
    Values<S, kWidth> values;
    for (int j = 0; j < kWidth; ++j) {
      simulation_.read(me_, from + j);
      values.of[j] = as<S>(from[j]);
    }
    return values;
  }
  template <class X, class S, int kWidth>
  void store(X* to, const Values<S, kWidth>& values) const {
    check_aligned(to, kWidth);
    for (int j = 0; j < kWidth; ++j) {
      simulation_.write(me_, to + j);
      to[j] = as<X>(values.of[j]);
    }
  }

  /// As with one thread per element: all loads come before the first store.
  template <class Load, class Fold, class Store>
  void each(std::int64_t n, int sources, const Load& load, const Fold& fold,
            const Store& store) const {
    if (n == 0) return;
    std::vector<decltype(load(0, n))> values;
    for (std::int64_t i = 0; i < n; ++i) values.push_back(load(0, i));
    for (int k = 1; k < sources; ++k)
      for (std::int64_t i = 0; i < n; ++i) {
        auto& value = values[static_cast<std::size_t>(i)];
        value = fold(value, load(k, i));
      }
    simulation_.yield(me_);
    for (std::int64_t i = 0; i < n; ++i) store(i, values[static_cast<std::size_t>(i)]);
  }

  template <class Body>
  bool together(int n, const Body& body) const {
    bool all = true;
    for (int i = 0; i < n; ++i) {
      polled_ = nullptr;
      all = body(i) && all;
    }
    return all;
  }

  /// Repeated polls of an unchanged flag block until it changes.
  std::uint32_t acquire(const std::uint32_t* flag) const {
    const bool again = flag == polled_;
    simulation_.yield(me_, [&, again] { return again && *flag == seen_; });
    simulation_.acquire(me_, flag);
    polled_ = flag;
    return seen_ = *flag;
  }
  void release(std::uint32_t* flag, std::uint32_t value) const {
    simulation_.yield(me_);
    simulation_.release(me_, flag);
    *flag = value;
  }

  std::uint64_t now() const { return simulation_.now(); }
  static std::uint64_t error(const std::uint64_t* word) { return *word; }
  static void set_error(std::uint64_t* word, std::uint64_t value) { *word = value; }

 private:
  template <class To, class From>
  static To as(From value) {
    if constexpr (std::is_same_v<To, From>) {
      return value;
    } else {
      return convert<To>(value);
    }
  }
  template <class X>
  static void check_aligned(const X* at, int width) {
    RINGLET_CHECK(width == 1 || reinterpret_cast<std::uintptr_t>(at) % 16 == 0,
                  "a vector access is not aligned");
  }

  BlockSimulation& simulation_;
  int me_;
  mutable const std::uint32_t* polled_ = nullptr;
  mutable std::uint32_t seen_ = 0;
};

/// The memory of all ranks, and sequential collectives over it.
template <class T>
class SimulatedRanks {
 public:
  using S = sum_t<T>;
  /// Elements (n) of a rank for one of the collectives.
  using Input = std::function<std::vector<T>(int rank, int collective)>;

  /// Rank r's data begins `offsets[r]` elements after a multiple of 16 bytes.
  SimulatedRanks(const AllReducePlan& plan, std::vector<int> offsets, std::uint32_t first_flag = 0)
      : plan_(plan), offsets_(std::move(offsets)), run_{} {
    run_.plan = plan;
    run_.view.ranks = plan.ranks;
    run_.view.error = &error_;
    run_.packed = true;
    run_.scale = 1;
    run_.wait_nanoseconds = BlockSimulation::kJump / 2;
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const auto n = static_cast<std::size_t>(plan.edge[plan.ranks]);
      data_.emplace_back(n + 2 * kPack<T>);
      staging_.emplace_back(static_cast<std::size_t>(plan.staging()) + 16);
      flags_.emplace_back(static_cast<std::size_t>(plan.blocks * plan.ranks), first_flag);
      const auto r = static_cast<std::size_t>(rank);
      run_.view.data[rank] = aligned(data_[r].data()) + offsets_[r];
      run_.view.staging[rank] = aligned(staging_[r].data());
      run_.view.flags[rank] = flags_[r].data();
      run_.packed = run_.packed && offsets_[r] % kPack<T> == 0;
    }
  }

  std::uint64_t error() const { return error_; }
  bool all_flags_are(std::uint32_t value) const {
    for (const auto& flags : flags_)
      for (const std::uint32_t flag : flags)
        if (flag != value) return false;
    return true;
  }
  /// Each rank's result of each of `count` collectives. Each rank acts as a separate device: it
  /// starts the next one, with new input, when its own blocks have ended.
  template <CombineOp op, Route route>
  std::vector<std::vector<std::vector<T>>> run(int count, const Input& input, std::uint64_t seed) {
    BlockSimulation simulation(seed);
    std::vector<std::vector<std::vector<T>>> results(
        static_cast<std::size_t>(count),
        std::vector<std::vector<T>>(static_cast<std::size_t>(plan_.ranks)));
    std::vector<int> ended(static_cast<std::size_t>(plan_.ranks));
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      fill(rank, input(rank, 0));
      for (int index = 0; index < plan_.blocks; ++index)
        simulation.add([&, rank, index, me = first_block(rank) + index] {
          const auto r = static_cast<std::size_t>(rank);
          for (int k = 0; k < count; ++k) {
            const SimulatedBlock block(simulation, me);
            AllReduceBlock<T, op, route, SimulatedBlock>(block, run_, rank, index).run();
            if (++ended[r] == (2 * k + 1) * plan_.blocks) {  // the last block acts for the host
              results[static_cast<std::size_t>(k)][r] = contents(rank);
              for (int other = 0; other < plan_.blocks; ++other)
                simulation.follow(me, first_block(rank) + other);
              if (k + 1 < count) fill(rank, input(rank, k + 1), &simulation, me);
              ended[r] += plan_.blocks;
              opener_[rank] = me;
            }
            const auto closed = [&, r, k] { return ended[r] < 2 * (k + 1) * plan_.blocks; };
            while (closed()) simulation.yield(me, closed);
            simulation.follow(me, opener_[rank]);
          }
        });
    }
    simulation.run();
    return results;
  }

 private:
  template <class X>
  static X* aligned(X* at) {
    return reinterpret_cast<X*>((reinterpret_cast<std::uintptr_t>(at) + 15) / 16 * 16);
  }
  int first_block(int rank) const { return rank * plan_.blocks; }
  T* data(int rank) const { return static_cast<T*>(run_.view.data[rank]); }
  std::vector<T> contents(int rank) const {
    return {data(rank), data(rank) + plan_.edge[plan_.ranks]};
  }
  void fill(int rank, const std::vector<T>& values, BlockSimulation* seen = nullptr, int me = 0) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (seen) seen->write(me, data(rank) + i);
      data(rank)[i] = values[i];
    }
  }

  AllReducePlan plan_;
  std::vector<int> offsets_;
  AllReduceRun run_;
  std::vector<std::vector<T>> data_;
  std::vector<std::vector<S>> staging_;
  std::vector<std::vector<std::uint32_t>> flags_;
  std::uint64_t error_ = 0;
  int opener_[kMostPeers] = {};
};

}  // namespace ringlet::cuda
