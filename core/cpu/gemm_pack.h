// Packing: an operand (extent, depth) becomes panels of kWidth rows, stored depth after depth, so
// that the tile reads both operands contiguously. Rows beyond the extent are zero.
#pragma once

#include "ringlet/core/cpu/gemm_operand.h"
#include "ringlet/core/cpu/lanes.h"

namespace ringlet::cpu::RINGLET_ISA {

/// An f32 number, rounded to bf16 when it is read.
struct Rounded {
  float value;
};

/// Reads kLanes numbers of f32, f64 or bf16 (widened to f32) at `from`; zero beyond `count`.
template <class E, int kLanes, class T>
RINGLET_INLINE lanes_t<E, kLanes> read_lanes(const T* from, std::int64_t count) {
  if constexpr (std::is_same_v<T, Rounded>) {
    const auto exact = load_lanes<E, kLanes>(&from->value, count);
    return bits_as<lanes_t<E, kLanes>>(rounded_to_bf16<kLanes>(exact) << 16);
  } else if constexpr (sizeof(E) == sizeof(T)) {
    return load_lanes<E, kLanes>(from, count);
  } else {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
    const auto wide = __builtin_convertvector(load_lanes<std::uint16_t, kLanes>(halves, count),
                                              lanes_t<std::uint32_t, kLanes>);
    return bits_as<lanes_t<E, kLanes>>(wide << 16);
  }
}

/// Lanes that packing moves in one step: the largest part of a register that divides the panel.
template <class E, int kWidth, int kLanes = kRegisterBytes / static_cast<int>(sizeof(E))>
constexpr int pack_lanes() {
  if constexpr (kWidth % kLanes == 0) {
    return kLanes;
  } else {
    return pack_lanes<E, kWidth, kLanes / 2>();
  }
}

/// For operands with neighbours in memory one row apart: read(depth, row, count) returns kLanes
/// rows of one depth, of which `count` exist. Panels are `stride` elements apart.
template <class E, int kWidth, class Read>
RINGLET_INLINE void pack_copied(E* to, std::int64_t stride, std::int64_t extent,
                                std::int64_t depths, Read read) {
  constexpr int kLanes = pack_lanes<E, kWidth>();
  const std::int64_t whole = extent / kWidth * kWidth;
  for (std::int64_t d = 0; d < depths; ++d) {
    E* panel = to + d * kWidth;
    for (std::int64_t row = 0; row < whole; row += kWidth, panel += stride)
#pragma GCC unroll 8
      for (int i = 0; i < kWidth; i += kLanes) store_lanes(panel + i, read(d, row + i, kLanes));
    if (whole == extent) continue;
    for (int i = 0; i < kWidth; i += kLanes) {
      const std::int64_t count = extent - whole - i;
      store_lanes(panel + i, count > 0 ? read(d, whole + i, count) : lanes_t<E, kLanes>{});
    }
  }
}

/// For operands with neighbours in memory one depth apart: read(row, depth, count) returns kLanes
/// depths of one row, of which `count` exist.
template <class E, int kWidth, class Read>
RINGLET_INLINE void pack_transposed(E* to, std::int64_t stride, std::int64_t extent,
                                    std::int64_t depths, Read read) {
  constexpr int kLanes = pack_lanes<E, kWidth>();
  for (std::int64_t row = 0; row < extent; row += kWidth, to += stride)
    for (int i = 0; i < kWidth; i += kLanes)
      for (std::int64_t d = 0; d < depths; d += kLanes) {
        const std::int64_t count = depths - d < kLanes ? depths - d : kLanes;
        lanes_t<E, kLanes> square[kLanes];
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; ++r)
          square[r] = row + i + r < extent ? read(row + i + r, d, count) : lanes_t<E, kLanes>{};
        transpose_lanes<kLanes>(square);
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; ++r)
          if (r < count) store_lanes(to + (d + r) * kWidth + i, square[r]);
      }
}

/// Rows, columns or depths [begin, begin + size).
struct GemmRange {
  std::int64_t begin, size;
};

/// A part of an operand as (extent, depth): rows of A or columns of B. `transposed`: neighbours in
/// memory are one depth apart.
template <class T>
struct PackSource {
  const T* data;
  std::int64_t ld;
  bool transposed;
};

/// Calls body with the PackSource of this part of x; S is float (f32 or bf16) or double. If packing
/// itself rounds to bf16 (kRounds), f32 stays f32 and Rounded is not used.
template <class S, bool kRounds, class Body>
RINGLET_INLINE void with_source(const GemmOperand& x, bool transposed, GemmRange extent,
                                GemmRange depth, Body body) {
  const std::int64_t at =
      transposed ? extent.begin * x.ld + depth.begin : depth.begin * x.ld + extent.begin;
  if (x.dtype == DType::bf16) {
    if constexpr (sizeof(S) == sizeof(float))
      body(PackSource<bfloat16>{static_cast<const bfloat16*>(x.data) + at, x.ld, transposed});
  } else if (!kRounds && x.rounded) {
    if constexpr (!kRounds && sizeof(S) == sizeof(float))
      body(PackSource<Rounded>{static_cast<const Rounded*>(x.data) + at, x.ld, transposed});
  } else {
    body(PackSource<S>{static_cast<const S*>(x.data) + at, x.ld, transposed});
  }
}

/// For MultiplyAdd: numbers one by one.
template <class S>
struct NumberPacking {
  static constexpr std::int64_t kDepthPerElement = 1;
  static constexpr std::int64_t kDepthMultiple = 1;
  static constexpr bool kRounds = false;

  /// Whether x is stored as elements: numbers of one row, or of one depth, are contiguous.
  static bool in_elements(const GemmOperand& x, std::int64_t) {
    return x.dtype == dtype_of<S>() && !x.rounded;
  }

  template <int kWidth, class T>
  static void pack(const PackSource<T>& from, std::int64_t extent, std::int64_t depths, S* to,
                   std::int64_t stride) {
    constexpr int kLanes = pack_lanes<S, kWidth>();
    const auto read = [&](std::int64_t outer, std::int64_t inner, std::int64_t count)
        __attribute__((always_inline)) {
      return read_lanes<S, kLanes>(from.data + outer * from.ld + inner, count);
    };
    if (from.transposed) {
      pack_transposed<S, kWidth>(to, stride, extent, depths, read);
    } else {
      pack_copied<S, kWidth>(to, stride, extent, depths, read);
    }
  }
};

// Packing into pairs of bf16 numbers that are adjacent in depth, the operands of bf16 dot products.
// An element is one row at two depths, the earlier one in the low half. f32 is rounded to nearest
// even.

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
