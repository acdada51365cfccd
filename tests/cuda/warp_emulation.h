// A warp of cuda/warp.h, with 32 lanes that a CPU thread runs sequentially. The matrix product
// follows the PTX ISA's tables of the elements of each lane.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "ringlet/core/base/dtype.h"
#include "ringlet/cuda/warp.h"

namespace ringlet::cuda {

/// Rows and columns of element i of a lane's fragments of mma.sync.m16n8k16 (PTX ISA, "Matrix
/// Fragments for mma.m16n8k16 with floating point type").
struct Place {
  int row, column;
};
inline Place place_in_a(int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  return {(0 <= i && i < 2) || (4 <= i && i < 6) ? group : group + 8,
          thread * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
inline Place place_in_b(int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  return {thread * 2 + (i & 1) + (i < 2 ? 0 : 8), group};
}
inline Place place_in_c(int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  return {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
}

struct EmulatedWarp {
  template <class State>
  struct Lanes {
    State of[kLanes];
  };

  template <class State, class Body>
  void each(Lanes<State>& lanes, Body body) const {
    for (int lane = 0; lane < kLanes; ++lane) body(lane, lanes.of[lane]);
  }

  template <class State, class Operands>
  void mma(Lanes<State>& lanes, Operands operands) const {
    float a[16][16], b[16][8];
    for (int lane = 0; lane < kLanes; ++lane) {
      const Mma m = operands(lanes.of[lane]);
      for (int i = 0; i < 8; ++i)
        a[place_in_a(lane, i).row][place_in_a(lane, i).column] = half(m.a.word[i / 2], i % 2);
      for (int i = 0; i < 4; ++i)
        b[place_in_b(lane, i).row][place_in_b(lane, i).column] = half(m.b.word[i / 2], i % 2);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const Mma m = operands(lanes.of[lane]);
      for (int i = 0; i < 4; ++i) {
        const Place at = place_in_c(lane, i);
        float sum = 0;
        for (int k = 0; k < 16; ++k) sum += a[at.row][k] * b[k][at.column];
        m.c[i] += sum;
      }
    }
  }

  template <class State, class Get, class Set>
  void shuffle_xor(Lanes<State>& lanes, int mask, Get get, Set set) const {
    std::decay_t<decltype(get(lanes.of[0]))> values[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = get(lanes.of[lane]);
    for (int lane = 0; lane < kLanes; ++lane) set(lanes.of[lane], values[lane ^ mask]);
  }
  template <class State, class Get>
  auto broadcast(Lanes<State>& lanes, int from, Get get) const {
    return get(lanes.of[from]);
  }
  template <class State, class Get>
  auto maximum(Lanes<State>& lanes, Get get) const {
    auto top = get(lanes.of[0]);
    for (State& s : lanes.of) top = maximum_of(top, get(s));
    return top;
  }
  template <class State, class Get>
  auto sum(Lanes<State>& lanes, Get get) const {
    std::decay_t<decltype(get(lanes.of[0]))> values[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = get(lanes.of[lane]);
    for (int mask = 16; mask > 0; mask /= 2)
      for (int lane = 0; lane < mask; ++lane) values[lane] += values[lane + mask];
    return values[0];
  }
  void sync() const {}

  template <int kWords>
  static Words<kWords> load(const void* from) {
    check_aligned(from, 4 * kWords);
    Words<kWords> words;
    std::memcpy(&words, from, sizeof(words));
    return words;
  }
  template <int kWords>
  static void store(void* to, const Words<kWords>& words) {
    check_aligned(to, 4 * kWords);
    std::memcpy(to, &words, sizeof(words));
  }
  static std::uint32_t pack(float low, float high) {
    return bfloat16(low).bits | static_cast<std::uint32_t>(bfloat16(high).bits) << 16;
  }
  static float maximum_of(float a, float b) { return std::fmax(a, b); }
  static double maximum_of(double a, double b) { return std::fmax(a, b); }
  template <class S>
  static S fma(S a, S b, S c) {
    return std::fma(a, b, c);
  }
  static float exp2(float x) { return std::exp2(x); }
  static float log2(float x) { return std::log2(x); }
  template <class S>
  static S exp(S x) {
    return std::exp(x);
  }
  template <class S>
  static S log(S x) {
    return std::log(x);
  }
  template <class S, class T>
  static S widen(T x) {
    return static_cast<S>(x);
  }
  template <class T, class S>
  static T narrow(S x) {
    return T(x);
  }

 private:
  static float half(std::uint32_t word, int which) {
    bfloat16 x;
    x.bits = static_cast<std::uint16_t>(which ? word >> 16 : word);
    return static_cast<float>(x);
  }
  static void check_aligned(const void* at, std::size_t nbytes) {
    if (reinterpret_cast<std::uintptr_t>(at) % nbytes != 0)
      throw std::runtime_error("a vector access is not aligned");
  }
};

}  // namespace ringlet::cuda
