// The Block of cuda/all_reduce_block.h on a device.
#pragma once

#include "ringlet/cuda/all_reduce_block.h"
#include "ringlet/cuda/combine.cuh"

namespace ringlet::cuda {

inline constexpr int kBlockThreads = 512;
/// Loads that a thread has in flight: one for single elements, several for packs, as many as the
/// registers allow.
template <class V>
inline constexpr int kAtOnce = 1;
template <class S, int kWidth>
requires(kWidth > 1) inline constexpr int kAtOnce<Values<S, kWidth>> = kWidth < 4 ? 4 : 16 / kWidth;

class DeviceBlock {
 public:
  template <class S, int kWidth, class X>
  __device__ __forceinline__ static Values<S, kWidth> load(const X* from) {
    Values<S, kWidth> values;
    if constexpr (kWidth == 1 && std::is_same_v<S, X>) {
      values.of[0] = *from;
    } else if constexpr (kWidth == 1) {
      values.of[0] = read(from);
    } else if constexpr (std::is_same_v<S, X>) {
      load_words(from, values);
    } else {
      const Values<X, kWidth> narrow = load<X, kWidth>(from);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) values.of[j] = read(&narrow.of[j]);
    }
    return values;
  }

  template <class X, class S, int kWidth>
  __device__ __forceinline__ static void store(X* to, const Values<S, kWidth>& values) {
    if constexpr (kWidth == 1 && std::is_same_v<S, X>) {
      *to = values.of[0];
    } else if constexpr (kWidth == 1) {
      *to = rounded<X>(values.of[0]);
    } else if constexpr (std::is_same_v<S, X>) {
      store_words(to, values);
    } else {
      Values<X, kWidth> narrow;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) narrow.of[j] = rounded<X>(values.of[j]);
      store(to, narrow);
    }
  }

  template <class Load, class Fold, class Store>
  __device__ __forceinline__ void each(std::int64_t n, int sources, const Load& load,
                                       const Fold& fold, const Store& store) const {
    using V = decltype(load(0, n));
    std::int64_t i = threadIdx.x;
    for (; i + (kAtOnce<V> - 1) * kBlockThreads < n; i += kAtOnce<V> * kBlockThreads)
      some<kAtOnce<V>, V>(i, sources, load, fold, store);
    for (; i < n; i += kBlockThreads) some<1, V>(i, sources, load, fold, store);
  }

  template <class Body>
  __device__ __forceinline__ bool together(int n, const Body& body) const {
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x);
    return __syncthreads_and(i >= n || body(i));
  }

  __device__ __forceinline__ static std::uint32_t acquire(const std::uint32_t* flag) {
    std::uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
  }
  __device__ __forceinline__ static void release(std::uint32_t* flag, std::uint32_t value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
  }

  __device__ __forceinline__ static std::uint64_t now() {
    std::uint64_t nanoseconds;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
  }
  __device__ __forceinline__ static std::uint64_t error(const std::uint64_t* word) {
    std::uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ __forceinline__ static void set_error(std::uint64_t* word, std::uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }

 private:
  template <int kCount, class V, class Load, class Fold, class Store>
  __device__ __forceinline__ static void some(std::int64_t i, int sources, const Load& load,
                                              const Fold& fold, const Store& store) {
    V values[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) values[j] = load(0, i + j * kBlockThreads);
#pragma unroll 1
    for (int k = 1; k < sources; ++k) {
      V next[kCount];
#pragma unroll
      for (int j = 0; j < kCount; ++j) next[j] = load(k, i + j * kBlockThreads);
#pragma unroll
      for (int j = 0; j < kCount; ++j) values[j] = fold(values[j], next[j]);
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) store(i + j * kBlockThreads, values[j]);
  }

  template <class X, int kWidth>
  __device__ __forceinline__ static void load_words(const X* from, Values<X, kWidth>& values) {
    uint4 words[sizeof(values) / 16];
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof(values) / 16); ++k)
      load_word(reinterpret_cast<const uint4*>(from) + k, words[k]);
    memcpy(&values, words, sizeof(values));
  }
  template <class X, int kWidth>
  __device__ __forceinline__ static void store_words(X* to, const Values<X, kWidth>& values) {
    uint4 words[sizeof(values) / 16];
    memcpy(words, &values, sizeof(values));
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof(values) / 16); ++k)
      store_word(reinterpret_cast<uint4*>(to) + k, words[k]);
  }

  // "memory" orders the access against the signals around it. Assembly, because the compiler splits
  // stores of structs. Accesses bypass the L1 cache, which peers do not share.
  __device__ __forceinline__ static void load_word(const uint4* from, uint4& word) {
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(from)
                 : "memory");
  }
  __device__ __forceinline__ static void store_word(uint4* to, const uint4& word) {
    asm volatile("st.global.cg.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word.x), "r"(word.y),
                 "r"(word.z), "r"(word.w)
                 : "memory");
  }
};

}  // namespace ringlet::cuda
