// Code of a whole warp. A warp W (DeviceWarp in warp.cuh) has
//   W::Lanes<State>            the registers of every lane
//   each(lanes, body)          body(lane, state) on every lane
//   mma(lanes, operands)       operands(state) names a lane's part of one m16n8k16 product
//   shuffle_xor(lanes, mask, get, set)   set(state, the value of get on lane ^ mask)
//   maximum, sum(lanes, get), broadcast(lanes, from, get)   one value, the same on all lanes
//   sync()                     a barrier, which makes earlier writes to shared memory visible
// and arithmetic: load, store, pack, lows, highs (of two pairs of bf16), maximum_of, fma, exp2,
// log2, exp, log, widen, narrow. Everything outside of `each` is the same on all lanes.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define RINGLET_WARP_CODE __device__ __forceinline__
#define RINGLET_UNROLL _Pragma("unroll")
#else
#define RINGLET_WARP_CODE inline
#define RINGLET_UNROLL
#endif

namespace ringlet::cuda {

inline constexpr int kLanes = 32;

/// Words that are accessed as one; the address is a multiple of their size.
template <int kWords>
struct alignas(4 * kWords) Words {
  std::uint32_t word[kWords];
};

/// A lane's part of c += a b, bf16 products added in f32: (16, 16) a, (16, 8) b, (16, 8) c. With
/// g = lane / 4 and t = lane % 4; a word has two elements, the lower one first:
///   a: rows g, g + 8, g, g + 8; columns 2t and 2t + 1 of the first two, 2t + 8 and 2t + 9 of the
///      others
///   b: column g; rows 2t and 2t + 1, then 2t + 8 and 2t + 9
///   c: row g, columns 2t and 2t + 1, then row g + 8
struct FragmentA {
  std::uint32_t word[4];
};
struct FragmentB {
  std::uint32_t word[2];
};
struct Mma {
  float (&c)[4];
  FragmentA a;
  FragmentB b;
};

}  // namespace ringlet::cuda
