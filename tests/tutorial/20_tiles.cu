// Lesson 20: tiles in shared memory. The emulated GPU counts what they save and a conflict costs.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <iostream>

#include "../emulated/emulated.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"

using namespace ringlet;
constexpr int kSide = 64, kSize = kSide * kSide, kTile = 32;
// c = a b', the product of a linear layer. Each thread reads two rows from global memory.
static __global__ void plain(const float* a, const float* b, float* c) {
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < kSide; ++k) sum += a[row * kSide + k] * b[column * kSide + k];
  c[row * kSide + column] = sum;
}
// The same by tiles. kWidth is the length of a tile's row in shared memory.
template <int kWidth>
__global__ void tiled(const float* a, const float* b, float* c) {
  __shared__ float of_a[kTile][kWidth], of_b[kTile][kWidth];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  float sum = 0;
  for (int begin = 0; begin < kSide; begin += kTile) {
    of_a[y][x] = a[(row + y) * kSide + begin + x];
    of_b[y][x] = b[(column + y) * kSide + begin + x];
    __syncthreads();  // both tiles are complete; a warp, 32 x, then reads columns of of_b
    for (int k = 0; k < kTile; ++k) sum += of_a[y][k] * of_b[x][k];
    __syncthreads();  // all threads have used them
  }
  c[(row + y) * kSide + column + x] = sum;
}
static auto run(const char* name, void (*kernel)(const float*, const float*, float*)) {
  Tensor m = uniform({3, kSide, kSide}, -1, 1, DType::f32, Device{});  // a, b and room for c
  float* memory = nullptr;
  cudaMalloc(&memory, m.nbytes());
  cudaMemcpyAsync(memory, m.bytes(), m.nbytes(), cudaMemcpyHostToDevice);
  emulated::count_launches(true);
  kernel<<<dim3(2, 2), dim3(kTile, kTile)>>>(memory, memory + kSize, memory + 2 * kSize);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  const emulated::LaunchCounters counters = emulated::take_counters().at(0);
  cudaMemcpyAsync(m.mutable_bytes(), memory, m.nbytes(), cudaMemcpyDeviceToHost), cudaFree(memory);
  CHECK(max(abs(m[2] - matmul(m[0], m[1], {.trans_b = true}))).item() < 1e-4f);  // the library's
  const std::pair found(counters.sectors * 32, counters.bank_passes - counters.least_passes);
  std::cout << name << ": " << found.first << " bytes moved, " << found.second << " conflicts\n"
            << std::string(found.first / 81920, '#') << "\n";
  return found;
}

TEST_CASE("20 tiles") {
  CHECK(run("each thread reads global memory", plain).first > 100 * 81920);
  // Each of four blocks reads four tiles and writes one. A column in one bank: 32 passes, not one.
  CHECK(run("tiles with rows of 32 words", tiled<32>) == std::pair(81920ul, 31ul * 4 * 32 * kSide));
  CHECK(run("tiles with rows of 33 words", tiled<33>) == std::pair(81920ul, 0ul));
}
