// How a permutation runs: whole rows as words, or tiles transposed in shared memory.
#pragma once

#include "ringlet/core/ops/permutation.h"
#include "ringlet/cuda/strided.h"
#include "ringlet/cuda/words.h"

namespace ringlet::cuda {

inline constexpr int kPermuteTile = 32;

/// out[.., a, .., b] = in[.., b, .., a]: the input is contiguous along a, the output along b.
struct TurnedTiles {
  std::int64_t a_size, b_size;
  std::int64_t a_out_stride, b_in_stride;
  std::int64_t others;  // elements of the other dimensions
  Divider a_tiles, b_tiles;
  Strided<2> places;  // of the other dimensions, in the input and the output

  RINGLET_HOST_DEVICE std::int64_t units() const {
    return others * a_tiles.divisor() * b_tiles.divisor();
  }
};

/// One tile: its beginning along a and b, and its offset in the input and the output.
struct TurnedTile {
  std::int64_t a, b;
  std::int64_t in, out;
};
RINGLET_HOST_DEVICE TurnedTile turned_tile(const TurnedTiles& plan, std::int64_t unit) {
  const Division b = divide(unit, plan.b_tiles);
  const Division a = divide(b.quotient, plan.a_tiles);
  std::int64_t offset[2];
  plan.places.offsets(a.quotient, offset);
  const std::int64_t first_a = a.remainder * kPermuteTile, first_b = b.remainder * kPermuteTile;
  return {first_a, first_b, offset[0] + first_b * plan.b_in_stride + first_a,
          offset[1] + first_a * plan.a_out_stride + first_b};
}

/// Requires merged dimensions (core/ops/permutation.h); the last is not contiguous in the input.
inline TurnedTiles plan_turned_tiles(const PermuteArgs& args) {
  const int b = args.dim - 1;
  int a = 0;
  while (a < b && args.in_strides[a] != 1) ++a;
  std::int64_t out_strides[Shape::kMaxDim];
  for (std::int64_t i = b, stride = 1; i >= 0; stride *= args.sizes[i--]) out_strides[i] = stride;

  TurnedTiles plan{args.sizes[a], args.sizes[b], out_strides[a], args.in_strides[b], 1, {}, {}, {}};
  plan.a_tiles = Divider((plan.a_size + kPermuteTile - 1) / kPermuteTile);
  plan.b_tiles = Divider((plan.b_size + kPermuteTile - 1) / kPermuteTile);
  for (int i = 0; i < b; ++i) {
    if (i == a) continue;
    plan.places.add(args.sizes[i], {args.in_strides[i], out_strides[i]});
    plan.others *= args.sizes[i];
  }
  return plan;
}

/// Whether whole rows can be copied: the last dimension is contiguous on both sides.
inline bool moves_rows(const PermuteArgs& args) {
  return args.dim == 0 || args.in_strides[args.dim - 1] == 1;
}

/// The widest word for copies of whole rows.
inline std::size_t row_word(const PermuteArgs& args) {
  const std::int64_t row = args.dim > 0 ? args.sizes[args.dim - 1] : 1;
  WidestWord word;
  word.fits(args.out).fits(args.in).fits(row * args.itemsize);
  for (int i = 0; i < args.dim - 1; ++i) word.fits(args.in_strides[i] * args.itemsize);
  return word.nbytes();
}

/// The positions of the rows' words in the input and the output.
inline Strided<2> plan_rows(const PermuteArgs& args, std::size_t word) {
  const auto nbytes = static_cast<std::int64_t>(word);
  const std::int64_t row = args.itemsize * (args.dim > 0 ? args.sizes[args.dim - 1] : 1);
  std::int64_t out_strides[Shape::kMaxDim];  // bytes
  for (std::int64_t i = args.dim - 2, stride = row; i >= 0; stride *= args.sizes[i--])
    out_strides[i] = stride;
  Strided<2> places;
  for (int i = 0; i < args.dim - 1; ++i)
    places.add(args.sizes[i],
               {args.in_strides[i] * args.itemsize / nbytes, out_strides[i] / nbytes});
  places.add(row / nbytes, {1, 1});
  return places;
}

}  // namespace ringlet::cuda
