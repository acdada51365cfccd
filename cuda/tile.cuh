// Products of a warp's 16 rows with 16 rows of a tile in shared memory. The columns of the two
// products of 16 rows have the order of row_of_column(), in which a lane has four adjacent ones.
#pragma once

#include <cstdint>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/base/host_device.h"
#include "ringlet/cuda/attention_tile.cuh"
#include "ringlet/cuda/warp.cuh"

namespace ringlet::cuda {

// Primitives of tensor-core kernels with tiles in shared memory: asynchronous copies, matrices from
// shared memory, products. For sm_80 and newer.

/// An address as the instructions for shared memory take it.
__device__ __forceinline__ std::uint32_t shared_address(const void* memory) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
}

/// Copies 16 bytes to shared memory, or writes zeros without reading. They arrive by
/// wait_for_copies() of the same thread, and are visible to others after a barrier.
__device__ __forceinline__ void copy_16(std::uint32_t to, const void* from, bool reads) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(reads ? 16 : 0)
               : "memory");
}
/// Ends a group of copies.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
/// Waits for all groups but the last `kPending`.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
}

/// Four matrices of 8 rows of 16 bytes; lane 8i + r names row r of matrix i. A lane gets elements
/// 2t and 2t + 1 of row g of each; transposed, column g of rows 2t and 2t + 1.
template <bool kTransposed = false>
__device__ __forceinline__ Words<4> load_matrices(std::uint32_t row) {
  Words<4> to;
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.word[0]), "=r"(to.word[1]), "=r"(to.word[2]), "=r"(to.word[3])
                 : "r"(row)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.word[0]), "=r"(to.word[1]), "=r"(to.word[2]), "=r"(to.word[3])
                 : "r"(row)
                 : "memory");
  return to;
}

/// c = a b.
__device__ __forceinline__ void multiply_anew(float (&c)[4], const Words<4>& a, std::uint32_t b0,
                                              std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b0), "r"(b1),
        "f"(0.0f));
}

/// The byte of 16-byte chunk `chunk` of row `row` in a tile of rows of kHead (32 or 64) bf16. Eight
/// rows that differ in bits 0 to 2, or in bits 0, 2 and 3, have each chunk in different banks.
template <int kHead>
RINGLET_HOST_DEVICE int tile_byte(int row, int chunk) {
  const int mixed = (row & 1) | (row >> 1 & 2) | ((row << 1 ^ row >> 1) & 4);
  return (row * (kHead / 8) + (chunk ^ (kHead == 32 ? mixed >> 1 : mixed))) * 16;
}

/// Starts copies of kRows rows of a head to a tile, by a block of kThreads; rows beyond `rows`
/// become zeros.
template <int kHead, int kRows, int kThreads>
__device__ __forceinline__ void copy_tile(std::uint32_t tile, const bfloat16* from,
                                          std::int64_t stride, int rows) {
  constexpr int kChunks = kHead / 8, kStep = kThreads / kChunks;
  static_assert(kStep % 16 == 0 && kRows % kStep == 0);
  const int chunk = static_cast<int>(threadIdx.x) % kChunks;
  const int first = static_cast<int>(threadIdx.x) / kChunks;
  const int row_bytes = static_cast<int>(stride * 2);  // so that an address is one multiply-add
  const char* bytes = reinterpret_cast<const char*>(from + chunk * 8);
  tile += static_cast<std::uint32_t>(tile_byte<kHead>(first, chunk));
#pragma unroll
  for (int row = 0; row < kRows; row += kStep)
    copy_16(tile + static_cast<std::uint32_t>(row * kHead * 2),
            bytes + std::int64_t{first + row} * row_bytes, first + row < rows);
}

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
  return {{pack_pair(c[0][0], c[0][1]), pack_pair(c[0][2], c[0][3]), pack_pair(c[1][0], c[1][1]),
           pack_pair(c[1][2], c[1][3])}};
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
          pack_pair(sums[j][2 * r] * factor, sums[j][2 * r + 1] * factor);
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
