// The gradient of GELU, alone or with the sums of its rows: the gradient of a bias before the GELU.
#pragma once

#include "ringlet/core/ops/matmul.h"
#include "ringlet/cuda/gelu.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

template <class T>
__global__ void gelu_backward_elements(T* out, const T* grad, const T* pre, std::int64_t n) {
  grid_stride(n, [&](std::int64_t i) {
    out[i] = from_compute<T>(to_compute(grad[i]) * gelu_derivative(to_compute(pre[i])));
  });
}

/// Writes kPack<T> elements at `i` and returns them in `slope`, as stored.
template <class T>
__device__ __forceinline__ void gelu_backward_pack(T* out, const T* grad, const T* pre,
                                                   std::int64_t i,
                                                   compute_t<T> (&slope)[kPack<T>]) {
  compute_t<T> x[kPack<T>];
  load_pack(grad + i, slope);
  load_pack(pre + i, x);
#pragma unroll
  for (int j = 0; j < kPack<T>; ++j) slope[j] *= gelu_derivative(x[j]);
  alignas(16) T stored[kPack<T>];
  store_pack(stored, slope);
  *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(stored);
  load_pack(stored, slope);
}

/// The first n % kPack threads process the elements outside packs.
template <class T>
__global__ void gelu_backward_packs(T* out, const T* grad, const T* pre, std::int64_t n) {
  grid_stride(n / kPack<T>, [&](std::int64_t i) {
    compute_t<T> slope[kPack<T>];
    gelu_backward_pack(out, grad, pre, i * kPack<T>, slope);
  });
  const std::int64_t tail = n - n % kPack<T> + std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (tail < n)
    out[tail] = from_compute<T>(to_compute(grad[tail]) * gelu_derivative(to_compute(pre[tail])));
}

// ---- with sums ----------------------------------------------------------------------------

/// Rows of threads of a block, each kWarp packs wide.
inline constexpr int kGeluRows = kThreads / kWarp;
/// Rows of a part, and the most parts: so many are summed by one further launch.
inline constexpr std::int64_t kGeluPartRows = 32;
inline constexpr std::int64_t kGeluParts = 256;

/// sums (gridDim.y, n) = the sums over `part` rows each of out (m, n) as stored; n is a multiple of
/// kPack<T>. Each thread adds every kGeluRows-th row; their sums are then added in order.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gelu_backward_sums(T* out, const T* grad, const T* pre, std::int64_t m, std::int64_t n,
                       std::int64_t part, compute_t<T>* sums) {
  using S = compute_t<T>;
  constexpr int V = kPack<T>;
  // The place of column i is i % V * kPlaces + i / V. Threads that write their j-th columns, and
  // those that read adjacent columns, take 32 different banks.
  constexpr int kPlaces = kWarp + kWarp / V;
  __shared__ S places[kGeluRows][V * kPlaces];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t pack = std::int64_t{blockIdx.x} * kWarp + lane, first = (pack - lane) * V;
  const std::int64_t packs = n / V;  // an index in packs tells the compiler that stores are aligned
  const std::int64_t begin = blockIdx.y * part, end = begin + part < m ? begin + part : m;
  S sum[V] = {};
  if (pack < packs)
    for (std::int64_t row = begin + warp; row < end; row += kGeluRows) {
      S slope[V];
      gelu_backward_pack(out, grad, pre, (row * packs + pack) * V, slope);
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] += slope[j];
    }
#pragma unroll
  for (int j = 0; j < V; ++j) places[warp][j * kPlaces + lane] = sum[j];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kWarp * V && first + i < n; i += kThreads) {
    const int place = i % V * kPlaces + i / V;
    S total = places[0][place];
    for (int row = 1; row < kGeluRows; ++row) total += places[row][place];
    sums[blockIdx.y * n + first + i] = total;
  }
}

/// out, and args.sums = the sums of its rows + args.sums_beta sums.
template <class T>
void launch_gelu_backward_sums(const GeluBackwardArgs& args, Device device) {
  using S = compute_t<T>;
  constexpr std::int64_t kColumns = kWarp * kPack<T>;
  const std::int64_t n = args.columns, m = args.n / n;
  const std::int64_t runs = (m + kGeluPartRows - 1) / kGeluPartRows;
  const std::int64_t part = (runs + kGeluParts - 1) / kGeluParts * kGeluPartRows;
  const std::int64_t parts = (m + part - 1) / part;
  const Workspace sums(device, static_cast<std::size_t>(parts * n) * sizeof(S));
  launch("gelu_backward", device, gelu_backward_sums<T>,
         dim3(static_cast<unsigned>((n + kColumns - 1) / kColumns), static_cast<unsigned>(parts)),
         kThreads, 0, static_cast<T*>(args.out), static_cast<const T*>(args.grad),
         static_cast<const T*>(args.pre_activation), m, n, part, sums.as<S>());
  sum_rows_kernel({args.sums, sums.data(), parts, n, args.sums_beta,
                   args.dtype == DType::f64 ? DType::f64 : DType::f32},
                  device);
}

}  // namespace ringlet::cuda
