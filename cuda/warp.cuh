// A warp's products on tensor cores, and words of several elements.
#pragma once

#include <cuda_bf16.h>

#include "ringlet/cuda/reduce.cuh"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

/// Computed unsigned, so that nvcc knows the lane's range.
__device__ __forceinline__ int lane_of_thread() { return static_cast<int>(threadIdx.x % kWarp); }

/// Words that are accessed as one; the address is a multiple of their size.
template <int kWords>
struct alignas(4 * kWords) Words {
  std::uint32_t word[kWords];
};

template <int kWords>
__device__ __forceinline__ Words<kWords> load_words(const void* from) {
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
__device__ __forceinline__ void store_words(void* to, const Words<4>& words) {
  *static_cast<uint4*>(to) = make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
}

/// The address `index` strides of bytes behind `first` in device memory, in one instruction.
template <class T>
__device__ __forceinline__ T* address_of(T* first, int index, int stride) {
  std::size_t at;
  asm("mad.wide.s32 %0, %1, %2, %3;"
      : "=l"(at)
      : "r"(index), "r"(stride), "l"(__cvta_generic_to_global(first)));
  return static_cast<T*>(__cvta_global_to_generic(at));
}

/// Two bf16 in a word, and words of the lower or the upper halves of two.
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  std::uint32_t word;
  memcpy(&word, &pair, sizeof(word));
  return word;
}
__device__ __forceinline__ std::uint32_t lows(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
__device__ __forceinline__ std::uint32_t highs(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

/// c += a b, bf16 products added in f32: (16, 16) a, (16, 8) b, (16, 8) c. With g = lane / 4 and
/// t = lane % 4, a lane has these parts; a word has two elements, the lower one first:
///   a: rows g, g + 8, g, g + 8; columns 2t and 2t + 1 of the first two, 2t + 8 and 2t + 9 of the
///      others
///   b: column g; rows 2t and 2t + 1, then 2t + 8 and 2t + 9
///   c: row g, columns 2t and 2t + 1, then row g + 8
__device__ __forceinline__ void multiply(float (&c)[4], const Words<4>& a, std::uint32_t b0,
                                         std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b0), "r"(b1));
}

/// Within 2 ulp; 0 where the result would be denormal.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace ringlet::cuda
