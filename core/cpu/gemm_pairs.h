// Packing into pairs of bf16 numbers that are adjacent in depth, the operands of bf16 dot products.
// An element is one row at two depths, the earlier one in the low half. f32 is rounded to nearest
// even.
#pragma once

#include "ringlet/core/cpu/gemm_pack.h"

namespace ringlet::cpu::RINGLET_ISA {

/// kLanes numbers as bf16 in the low half of each lane.
template <int kLanes, class T>
RINGLET_INLINE lanes_t<std::uint32_t, kLanes> read_halves(const T* from, std::int64_t count) {
  if constexpr (sizeof(T) == 2) {
    return __builtin_convertvector(
        load_lanes<std::uint16_t, kLanes>(reinterpret_cast<const std::uint16_t*>(from), count),
        lanes_t<std::uint32_t, kLanes>);
  } else {
    return rounded_to_bf16<kLanes>(load_lanes<float, kLanes>(from, count));
  }
}

/// The pairs of adjacent numbers in memory, of which `numbers` numbers exist.
template <int kLanes, class T>
RINGLET_INLINE lanes_t<std::uint32_t, kLanes> read_pairs(const T* from, std::int64_t numbers) {
  using U = lanes_t<std::uint32_t, kLanes>;
  if constexpr (sizeof(T) == 2) {
    return bits_as<U>(load_lanes<std::uint16_t, 2 * kLanes>(
        reinterpret_cast<const std::uint16_t*>(from), numbers));
  } else {
    // One register at a time: compilers narrow wider vectors number by number.
    typedef lanes_t<std::uint16_t, kLanes> Halves;
    const Halves parts[2] = {
        __builtin_convertvector(read_halves<kLanes>(from, numbers), Halves),
        __builtin_convertvector(read_halves<kLanes>(from + kLanes, numbers - kLanes), Halves)};
    return load_lanes<U>(parts);
  }
}

/// For dot products of pairs; the last pair of an odd depth contains a zero.
struct PairPacking {
  static constexpr std::int64_t kDepthPerElement = 2;
  static constexpr std::int64_t kDepthMultiple = 2;
  static constexpr bool kRounds = true;

  /// Whether x, `depths` numbers per row, is stored as pairs.
  static bool in_elements(const GemmOperand& x, std::int64_t depths) {
    return x.dtype == DType::bf16 && !x.trans && depths % 2 == 0 && x.ld % 2 == 0 &&
           reinterpret_cast<std::uintptr_t>(x.data) % sizeof(std::uint32_t) == 0;
  }

  template <int kWidth, class T>
  static void pack(const PackSource<T>& from, std::int64_t extent, std::int64_t depths,
                   std::uint32_t* to, std::int64_t stride) {
    constexpr int kLanes = pack_lanes<std::uint32_t, kWidth>();
    const std::int64_t pairs = (depths + 1) / 2;
    if (from.transposed) {
      const auto read = [&](std::int64_t row, std::int64_t pair, std::int64_t)
          __attribute__((always_inline)) {
        return read_pairs<kLanes>(from.data + row * from.ld + 2 * pair, depths - 2 * pair);
      };
      pack_transposed<std::uint32_t, kWidth>(to, stride, extent, pairs, read);
    } else {
      const auto read = [&](std::int64_t pair, std::int64_t row, std::int64_t count)
          __attribute__((always_inline)) {
        const T* at = from.data + 2 * pair * from.ld + row;
        const auto low = read_halves<kLanes>(at, count);
        return 2 * pair + 1 == depths ? low : low | read_halves<kLanes>(at + from.ld, count) << 16;
      };
      pack_copied<std::uint32_t, kWidth>(to, stride, extent, pairs, read);
    }
  }
};

}  // namespace ringlet::cpu::RINGLET_ISA
