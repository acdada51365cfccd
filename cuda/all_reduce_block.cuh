// A block of an in-kernel all-reduce: its memory accesses, and the signals by which the blocks of
// different ranks tell each other their progress.
#pragma once

#include "ringlet/cuda/all_reduce_plan.h"
#include "ringlet/cuda/combine.cuh"
#include "ringlet/cuda/launch.h"

namespace ringlet::cuda {

template <class S, int kWidth>
struct Values {
  S of[kWidth];
};

inline constexpr int kBlockThreads = 512;
/// Loads that a thread has in flight: one for single elements, several for packs, as many as the
/// registers allow.
template <class V>
inline constexpr int kAtOnce = 1;
template <class S, int kWidth>
requires(kWidth > 1) inline constexpr int kAtOnce<Values<S, kWidth>> = kWidth < 4 ? 4 : 16 / kWidth;

// "memory" orders the access against the signals around it. Assembly, because the compiler splits
// stores of structs. Accesses bypass the L1 cache, which peers do not share.
__device__ __forceinline__ void load_word(const uint4* from, uint4& word) {
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "l"(from)
               : "memory");
}
__device__ __forceinline__ void store_word(uint4* to, const uint4& word) {
  asm volatile("st.global.cg.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word.x), "r"(word.y),
               "r"(word.z), "r"(word.w)
               : "memory");
}

template <class X, int kWidth>
__device__ __forceinline__ void load_words(const X* from, Values<X, kWidth>& values) {
  uint4 words[sizeof(values) / 16];
#pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof(values) / 16); ++k)
    load_word(reinterpret_cast<const uint4*>(from) + k, words[k]);
  memcpy(&values, words, sizeof(values));
}
template <class X, int kWidth>
__device__ __forceinline__ void store_words(X* to, const Values<X, kWidth>& values) {
  uint4 words[sizeof(values) / 16];
  memcpy(words, &values, sizeof(values));
#pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof(values) / 16); ++k)
    store_word(reinterpret_cast<uint4*>(to) + k, words[k]);
}

template <class S, int kWidth, class X>
__device__ __forceinline__ Values<S, kWidth> load_values(const X* from) {
  Values<S, kWidth> values;
  if constexpr (kWidth == 1 && std::is_same_v<S, X>) {
    values.of[0] = *from;
  } else if constexpr (kWidth == 1) {
    values.of[0] = to_compute(*from);
  } else if constexpr (std::is_same_v<S, X>) {
    load_words(from, values);
  } else {
    const Values<X, kWidth> narrow = load_values<X, kWidth>(from);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values.of[j] = to_compute(narrow.of[j]);
  }
  return values;
}

template <class X, class S, int kWidth>
__device__ __forceinline__ void store_values(X* to, const Values<S, kWidth>& values) {
  if constexpr (kWidth == 1 && std::is_same_v<S, X>) {
    *to = values.of[0];
  } else if constexpr (kWidth == 1) {
    *to = from_compute<X>(values.of[0]);
  } else if constexpr (std::is_same_v<S, X>) {
    store_words(to, values);
  } else {
    Values<X, kWidth> narrow;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) narrow.of[j] = from_compute<X>(values.of[j]);
    store_values(to, narrow);
  }
}

template <int kCount, class V, class Load, class Fold, class Store>
__device__ __forceinline__ void some(std::int64_t i, int sources, const Load& load,
                                     const Fold& fold, const Store& store) {
  V values[kCount];
#pragma unroll
  for (int j = 0; j < kCount; ++j) values[j] = load(0, i + j * kBlockThreads);
  static_assert(kMostPeers <= 32);
  V waiting[kMostWaiting][kCount];
  int depth = 0;
#pragma unroll 1
  for (int k = 1; k < sources; ++k) {
    V next[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) next[j] = load(k, i + j * kBlockThreads);
    const int additions = additions_after(k, sources);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (additions == 0) waiting[depth][j] = values[j];
      values[j] = additions == 0 ? next[j] : fold(values[j], next[j]);
    }
    depth += additions == 0;
    for (int left = additions; left > 1; --left) {
      --depth;
#pragma unroll
      for (int j = 0; j < kCount; ++j) values[j] = fold(waiting[depth][j], values[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) store(i + j * kBlockThreads, values[j]);
}

template <class Load, class Fold, class Store>
__device__ __forceinline__ void each_of_block(std::int64_t n, int sources, const Load& load,
                                              const Fold& fold, const Store& store) {
  using V = decltype(load(0, n));
  std::int64_t i = threadIdx.x;
  for (; i + (kAtOnce<V> - 1) * kBlockThreads < n; i += kAtOnce<V> * kBlockThreads)
    some<kAtOnce<V>, V>(i, sources, load, fold, store);
  for (; i < n; i += kBlockThreads) some<1, V>(i, sources, load, fold, store);
}

template <class Body>
__device__ __forceinline__ bool together(int n, const Body& body) {
  __syncthreads();
  const int i = static_cast<int>(threadIdx.x);
  return __syncthreads_and(i >= n || body(i));
}

/// `across`: the ranks of the flag are on several devices.
__device__ __forceinline__ std::uint32_t acquire(const std::uint32_t* flag, bool across) {
  std::uint32_t value;
  if (across)
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  else
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ __forceinline__ void release(std::uint32_t* flag, std::uint32_t value, bool across) {
  if (across)
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
  else
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ __forceinline__ std::uint64_t now() {
  std::uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}
__device__ __forceinline__ std::uint64_t read_error(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ __forceinline__ void set_error(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/// The arguments of a launch.
struct AllReduceRun {
  PeerView view;
  AllReducePlan plan;
  std::uint8_t launched[kMostPeers];  // the ranks of this launch
  bool packed;                        // every rank's data begins at a multiple of 16 bytes
  bool reduces, gathers;              // of a ring: both
  double scale;                       // multiplies the sums
  std::uint64_t wait_nanoseconds;     // the longest wait for a peer
};

/// Ranks first, first + 1, …, modulo the number of ranks.
struct Peers {
  int first;
  int count;
};

class AllReduceSignals {
 public:
  __device__ __forceinline__ AllReduceSignals(const AllReduceRun& run, int rank, int index)
      : run_(run),
        rank_(rank),
        index_(index),
        begin_(acquire(flag(rank, rank), run.view.across_devices)) {}

  __device__ __forceinline__ Peers next() const { return {plan().around(rank_ + 1), 1}; }
  __device__ __forceinline__ Peers previous() const { return {plan().around(rank_ - 1), 1}; }
  __device__ __forceinline__ Peers others() const {
    return {plan().around(rank_ + 1), plan().ranks - 1};
  }

  /// Signals the progress of this block to `peers`.
  __device__ __forceinline__ void raise(Peers peers, std::uint32_t signal) const {
    together(peers.count, [&](int i) {
      release(flag(plan().around(peers.first + i), rank_), begin_ + signal,
              run_.view.across_devices);
      return true;
    });
  }

  /// Waits until all of `peers` have raised `signal`; false if a wait times out, on any rank.
  __device__ __forceinline__ bool wait(Peers peers, std::uint32_t signal, int step,
                                       std::int64_t segment) const {
    return together(peers.count, [&](int i) {
      const int peer = plan().around(peers.first + i);
      return spin(flag(rank_, peer), begin_ + signal,
                  {rank_, peer, step, static_cast<std::uint32_t>(segment)});
    });
  }

  /// Waits until `readers` have read everything, then advances the base of the next collective's
  /// signals.
  __device__ __forceinline__ void end(Peers readers) const {
    raise(others(), plan().done());  // also peers that wait for this rank only in another route
    if (wait(readers, plan().done(), Stall::kEnd, plan().segments))
      raise({rank_, 1}, plan().done());
  }

 private:
  __device__ __forceinline__ const AllReducePlan& plan() const { return run_.plan; }

  /// The flag of rank `at` in which rank `from` stores its progress.
  __device__ __forceinline__ std::uint32_t* flag(int at, int from) const {
    return run_.view.flags[at] + index_ * plan().ranks + from;
  }

  /// The wait of one thread. The clock and the error word, which is in host memory, are polled only
  /// every kPolls rounds.
  __device__ __forceinline__ bool spin(const std::uint32_t* at, std::uint32_t target,
                                       const Stall& stall) const {
    constexpr unsigned kPolls = 64;
    const bool across = run_.view.across_devices;
    if (reached(acquire(at, across), target)) return true;
    const std::uint64_t begin = now();
    for (unsigned polls = 1;; ++polls) {
      if (reached(acquire(at, across), target)) return true;
      if (polls % kPolls != 0) continue;
      const std::uint64_t error = read_error(run_.view.error);
      if (error == 0 && now() - begin < run_.wait_nanoseconds) continue;
      if (error == 0 || stall.word() < error) set_error(run_.view.error, stall.word());
      return false;
    }
  }

  const AllReduceRun& run_;
  int rank_;
  int index_;
  std::uint32_t begin_;  // the base of this collective's signals
};

}  // namespace ringlet::cuda
