// The Warp of cuda/warp.h on a device.
#pragma once

#include <cuda_bf16.h>

#include "ringlet/cuda/reduce.cuh"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/warp.h"

namespace ringlet::cuda {

struct DeviceWarp {
  template <class State>
  using Lanes = State;
  int lane;

  template <class State, class Body>
  __device__ __forceinline__ void each(State& state, Body body) const {
    body(lane, state);
  }

  template <class State, class Operands>
  __device__ __forceinline__ void mma(State& state, Operands operands) const {
    const Mma m = operands(state);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(m.c[0]), "+f"(m.c[1]), "+f"(m.c[2]), "+f"(m.c[3])
        : "r"(m.a.word[0]), "r"(m.a.word[1]), "r"(m.a.word[2]), "r"(m.a.word[3]), "r"(m.b.word[0]),
          "r"(m.b.word[1]));
  }

  template <class State, class Get, class Set>
  __device__ __forceinline__ void shuffle_xor(State& state, int mask, Get get, Set set) const {
    set(state, __shfl_xor_sync(kAllLanes, get(state), mask));
  }
  template <class State, class Get>
  __device__ __forceinline__ auto broadcast(State& state, int from, Get get) const {
    return __shfl_sync(kAllLanes, get(state), from);
  }
  template <class State, class Get>
  __device__ __forceinline__ auto maximum(State& state, Get get) const {
    return warp_max(get(state));
  }
  template <class State, class Get>
  __device__ __forceinline__ auto sum(State& state, Get get) const {
    return warp_sum(get(state));
  }
  __device__ __forceinline__ void sync() const { __syncwarp(); }

  template <int kWords>
  static __device__ __forceinline__ Words<kWords> load(const void* from) {
    Words<kWords> words;
    if constexpr (kWords == 4) {
      const uint4 x = *static_cast<const uint4*>(from);
      words.word[0] = x.x, words.word[1] = x.y, words.word[2] = x.z, words.word[3] = x.w;
    } else {
      static_assert(kWords == 2);
      const uint2 x = *static_cast<const uint2*>(from);
      words.word[0] = x.x, words.word[1] = x.y;
    }
    return words;
  }
  static __device__ __forceinline__ void store(void* to, const Words<4>& words) {
    *static_cast<uint4*>(to) =
        make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
  }
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    std::uint32_t word;
    memcpy(&word, &pair, sizeof(word));
    return word;
  }

  static __device__ __forceinline__ std::uint32_t lows(std::uint32_t a, std::uint32_t b) {
    return __byte_perm(a, b, 0x5410);
  }
  static __device__ __forceinline__ std::uint32_t highs(std::uint32_t a, std::uint32_t b) {
    return __byte_perm(a, b, 0x7632);
  }

  static __device__ __forceinline__ float maximum_of(float a, float b) { return fmaxf(a, b); }
  static __device__ __forceinline__ double maximum_of(double a, double b) { return fmax(a, b); }
  static __device__ __forceinline__ float fma(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
  }
  static __device__ __forceinline__ double fma(double a, double b, double c) {
    return __fma_rn(a, b, c);
  }
  /// Within 2 ulp; 0 where the result would be denormal.
  static __device__ __forceinline__ float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  static __device__ __forceinline__ float log2(float x) { return ::log2f(x); }
  static __device__ __forceinline__ float exp(float x) { return ::expf(x); }
  static __device__ __forceinline__ double exp(double x) { return ::exp(x); }
  static __device__ __forceinline__ float log(float x) { return ::logf(x); }
  static __device__ __forceinline__ double log(double x) { return ::log(x); }
  template <class S, class T>
  static __device__ __forceinline__ S widen(T x) {
    return to_compute(x);
  }
  template <class T, class S>
  static __device__ __forceinline__ T narrow(S x) {
    return from_compute<T>(x);
  }
};

}  // namespace ringlet::cuda
