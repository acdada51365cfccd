// Elements in device code: their compute type, and accesses of 16 bytes of them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ringlet/core/base/convert.h"
#include "ringlet/cuda/pack.h"

namespace ringlet::cuda {

/// bf16 and f16 are storage only; their compute type is f32.
template <class T>
using compute_t = std::conditional_t<kIsNarrow<T>, float, T>;

template <class T>
__device__ __forceinline__ compute_t<T> to_compute(T value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
  } else if constexpr (std::is_same_v<T, float16>) {
    return __half2float(__ushort_as_half(value.bits));
  } else {
    return value;
  }
}

/// Rounded to nearest even, as on the CPU (where a NaN keeps its upper bits).
template <class T>
__device__ __forceinline__ T from_compute(compute_t<T> value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    bfloat16 result;
    result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    return result;
  } else if constexpr (std::is_same_v<T, float16>) {
    float16 result;
    result.bits = __half_as_ushort(__float2half_rn(value));
    return result;
  } else {
    return value;
  }
}

/// Loads kPack<T> elements from an aligned address, in their compute type. Not of f16.
template <class T>
__device__ __forceinline__ void load_pack(const T* from, compute_t<T> (&to)[kPack<T>]) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  if constexpr (std::is_same_v<T, bfloat16>) {
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  } else {
    memcpy(to, &raw, 16);
  }
}

/// The reverse, rounded.
template <class T>
__device__ __forceinline__ void store_pack(T* to, const compute_t<T> (&from)[kPack<T>]) {
  uint4 raw;
  if constexpr (std::is_same_v<T, bfloat16>) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
      memcpy(&words[i], &pair, 4);
    }
    raw = make_uint4(words[0], words[1], words[2], words[3]);
  } else {
    memcpy(&raw, from, 16);
  }
  *reinterpret_cast<uint4*>(to) = raw;
}

/// Four f32 as bf16 in 8 bytes; the address is a multiple of 8.
__device__ __forceinline__ void store_half_pack(bfloat16* to, const float (&from)[4]) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(from[0], from[1]);
  const __nv_bfloat162 high = __floats2bfloat162_rn(from[2], from[3]);
  uint2 raw;
  memcpy(&raw.x, &low, 4);
  memcpy(&raw.y, &high, 4);
  *reinterpret_cast<uint2*>(to) = raw;
}

/// One element, or several packs, for element types of different sizes that are used together.
template <class T, int kCount>
__device__ __forceinline__ void load_run(const T* from, compute_t<T> (&to)[kCount]) {
  if constexpr (kCount == 1) {
    to[0] = to_compute(*from);
  } else {
    static_assert(kCount % kPack<T> == 0);
#pragma unroll
    for (int i = 0; i < kCount; i += kPack<T>)
      load_pack(from + i, reinterpret_cast<compute_t<T>(&)[kPack<T>]>(to[i]));
  }
}
template <class T, int kCount>
__device__ __forceinline__ void store_run(T* to, const compute_t<T> (&from)[kCount]) {
  if constexpr (kCount == 1) {
    *to = from_compute<T>(from[0]);
  } else {
    static_assert(kCount % kPack<T> == 0);
#pragma unroll
    for (int i = 0; i < kCount; i += kPack<T>)
      store_pack(to + i, reinterpret_cast<const compute_t<T>(&)[kPack<T>]>(from[i]));
  }
}

}  // namespace ringlet::cuda
