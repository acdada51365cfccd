// Products of a warp's 16 rows with 16 rows of a tile in shared memory. The columns of the two
// products of 16 rows have the order of row_of_column(), in which a lane has four adjacent ones.
#pragma once

#include "ringlet/cuda/attention_tile.h"
#include "ringlet/cuda/tensor_core.cuh"
#include "ringlet/cuda/warp.cuh"

namespace ringlet::cuda {

template <int kHead>
inline constexpr std::uint32_t kTileBytes = kBlockRows* kHead * 2;

/// A lane's bytes in a tile for 16 rows in that order. 16 columns further is the offset ^ 32.
template <int kHead>
struct LaneOffsets {
  std::uint32_t along, across;

  __device__ __forceinline__ explicit LaneOffsets(int lane)
      : along(offset(row_of_column(lane / 16, lane % 8), lane / 8 % 2)),
        across(offset(row_of_column(lane / 8 % 2, lane % 8), lane / 16)) {}

 private:
  static __device__ __forceinline__ std::uint32_t offset(int row, int chunk) {
    return static_cast<std::uint32_t>(tile_byte<kHead>(row, chunk));
  }
};

/// Operand a of products along the rows: row i is row `row` + `stride` i of the tile, row i + 8 is
/// `further` rows after it.
template <int kHead>
__device__ __forceinline__ void load_rows(Words<4> (&to)[kHead / 16], std::uint32_t tile, int row,
                                          int stride, int further, int lane) {
  const int own = row + lane % 8 * stride + lane / 8 % 2 * further;
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step)
    to[step] = load_matrices(
        tile + static_cast<std::uint32_t>(tile_byte<kHead>(own, 2 * step + lane / 16)));
}

/// c = a b^T for the 16 rows of b at `rows`.
template <int kHead>
__device__ __forceinline__ void multiply_rows(float (&c)[2][4], const Words<4> (&a)[kHead / 16],
                                              std::uint32_t rows, std::uint32_t along) {
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step) {
    const Words<4> b = load_matrices(rows + (along ^ static_cast<std::uint32_t>(step << 5)));
    if (step == 0) {
      multiply_anew(c[0], a[0], b.word[0], b.word[1]);
      multiply_anew(c[1], a[0], b.word[2], b.word[3]);
    } else {
      multiply(c[0], a[step], b.word[0], b.word[1]);
      multiply(c[1], a[step], b.word[2], b.word[3]);
    }
  }
}
/// c += a b for these 16 rows of b.
template <int kHead>
__device__ __forceinline__ void multiply_columns(float (&c)[kHead / 8][4], const Words<4>& a,
                                                 std::uint32_t rows, std::uint32_t across) {
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step) {
    const Words<4> b = load_matrices<true>(rows + (across ^ static_cast<std::uint32_t>(step << 5)));
    multiply(c[2 * step], a, b.word[0], b.word[1]);
    multiply(c[2 * step + 1], a, b.word[2], b.word[3]);
  }
}

/// Two products as operand a across their 16 columns.
__device__ __forceinline__ Words<4> pack_products(const float (&c)[2][4]) {
  return {{DeviceWarp::pack(c[0][0], c[0][1]), DeviceWarp::pack(c[0][2], c[0][3]),
           DeviceWarp::pack(c[1][0], c[1][1]), DeviceWarp::pack(c[1][2], c[1][3])}};
}

/// Stores the first `rows` of a warp's 16 rows, times factor, through memory for 16 rows that this
/// warp alone uses. Row g of the sums is row `stride` g, row g + 8 is `further` rows after it.
template <int kHead>
__device__ __forceinline__ void store_rows(bfloat16* to, std::int64_t elements, int rows,
                                           const float (&sums)[kHead / 8][4], float factor,
                                           char* memory, int stride, int further, int lane) {
  constexpr int kChunks = kHead / 8;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int j = 0; j < kChunks; ++j)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      *reinterpret_cast<std::uint32_t*>(memory + tile_byte<kHead>(stride * g + further * r, j) +
                                        4 * t) =
          DeviceWarp::pack(sums[j][2 * r] * factor, sums[j][2 * r + 1] * factor);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * kChunks / kLanes; ++i) {
    const int at = lane + kLanes * i, row = at / kChunks, chunk = at % kChunks;
    if (row < rows)
      *reinterpret_cast<uint4*>(to + row * elements + 8 * chunk) =
          *reinterpret_cast<const uint4*>(memory + tile_byte<kHead>(row, chunk));
  }
  __syncwarp();
}

}  // namespace ringlet::cuda
