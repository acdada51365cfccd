// Lesson 19: a kernel. Barriers make it right, addresses make it fast. This program is linked with
// the emulated GPU, which finds the race and counts the bytes that a launch moves.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <iostream>
#include <numeric>
#include <vector>

#include "../emulated/emulated.h"

using namespace ringlet;

namespace {

constexpr int kThreads = 128, kBlocks = 4, kEach = 8;  // values of a thread
constexpr int kValues = kThreads * kBlocks * kEach;

// The index of value i of thread t. Coalesced: the 32 threads of a warp read 32 adjacent words,
// four sectors of 32 bytes. Otherwise each thread reads its own run, and a warp needs 32 sectors.
__device__ int place(bool coalesced, int t, int i) {
  const int begin = static_cast<int>(blockIdx.x) * kThreads * kEach;
  return begin + (coalesced ? i * kThreads + t : t * kEach + i);
}

// One sum per block: each thread adds its values, then a tree adds the threads' sums.
template <bool kCoalesced, bool kBarrier>
__global__ void sum_blocks(const int* values, int* sums) {
  __shared__ int parts[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  int sum = 0;
  for (int i = 0; i < kEach; ++i) sum += values[place(kCoalesced, t, i)];
  parts[t] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    // Warps run in any order: without the barrier a thread may read before its peer has written.
    if (kBarrier) __syncthreads();
    if (t < half) parts[t] += parts[t + half];
  }
  if (t == 0) sums[blockIdx.x] = parts[0];
}

using Kernel = void (*)(const int*, int*);

struct Outcome {
  cudaError_t status;
  int sum;
  emulated::LaunchCounters counters;
};

Outcome run(Kernel kernel, const std::vector<int>& values) {
  int *on_device = nullptr, *sums = nullptr;
  cudaMalloc(&on_device, values.size() * sizeof(int));
  cudaMalloc(&sums, kBlocks * sizeof(int));
  cudaMemcpyAsync(on_device, values.data(), values.size() * sizeof(int), cudaMemcpyHostToDevice);
  emulated::count_launches(true);
  kernel<<<kBlocks, kThreads>>>(on_device, sums);
  Outcome outcome{cudaDeviceSynchronize(), 0, {}};
  outcome.counters = emulated::take_counters().at(0);
  std::vector<int> host(kBlocks);
  if (outcome.status == cudaSuccess)
    cudaMemcpyAsync(host.data(), sums, kBlocks * sizeof(int), cudaMemcpyDeviceToHost);
  outcome.sum = std::accumulate(host.begin(), host.end(), 0);
  cudaFree(on_device), cudaFree(sums);
  return outcome;
}

}  // namespace

TEST_CASE("19 a kernel") {
  std::vector<int> values(kValues);
  std::iota(values.begin(), values.end(), 0);
  const int exact = kValues * (kValues - 1) / 2;

  // Without the barrier: "a race", or a read of bytes not yet written, with thread, kernel, file
  // and line. A real GPU may return the right sum on most days.
  const int faults = emulated::fault_count();
  CHECK(run(sum_blocks<true, false>, values).status != cudaSuccess);
  CHECK(emulated::fault_count() == faults + 1);

  const Outcome right = run(sum_blocks<true, true>, values);
  CHECK(right.status == cudaSuccess);
  CHECK(right.sum == exact);

  // The same sum from runs of words: eight times the sectors for the same bytes.
  const Outcome slow = run(sum_blocks<false, true>, values);
  CHECK(slow.sum == exact);
  for (const auto& [name, counters] :
       {std::pair{"coalesced", right.counters}, {"in runs", slow.counters}})
    std::cout << name << ": " << counters.bytes << " bytes requested, "
              << counters.sectors * emulated::kSectorBytes << " moved "
              << std::string(counters.sectors / 256, '#') << ", "
              << counters.bank_passes - counters.least_passes << " bank conflicts, "
              << counters.warp_instructions() << " instructions of warps\n";
  CHECK(right.counters.sectors == right.counters.least_sectors);
  CHECK(slow.counters.bytes == right.counters.bytes);
  CHECK(slow.counters.sectors > 7 * right.counters.sectors);
}
