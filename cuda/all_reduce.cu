#include "ringlet/cuda/all_reduce.h"

#include "ringlet/cuda/all_reduce_block.h"
#include "ringlet/cuda/combine.cuh"
#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/launch.h"

namespace ringlet::cuda {
namespace {

constexpr int kBlockThreads = 512;
/// Loads that a thread has under way at once: of packs, whose elements all want registers.
template <class V>
inline constexpr int kAtOnce = 1;
template <class S, int kWidth>
requires(kWidth > 1) inline constexpr int kAtOnce<Values<S, kWidth>> = kWidth < 4 ? 4 : 16 / kWidth;

// ---- the device's block -------------------------------------------------------------------

class DeviceBlock {
 public:
  __device__ explicit DeviceBlock(bool across_devices) : across_devices_(across_devices) {}

  template <class S, int kWidth, class X>
  __device__ __forceinline__ static Values<S, kWidth> load(const X* from) {
    Values<S, kWidth> values;
    if constexpr (kWidth == 1 && std::is_same_v<S, X>) {
      values.of[0] = *from;
    } else if constexpr (kWidth == 1) {
      values.of[0] = read(from);
    } else if constexpr (std::is_same_v<S, X>) {
      load_words(from, values);
    } else {
      const Values<X, kWidth> narrow = load<X, kWidth>(from);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) values.of[j] = read(&narrow.of[j]);
    }
    return values;
  }

  template <class X, class S, int kWidth>
  __device__ __forceinline__ static void store(X* to, const Values<S, kWidth>& values) {
    if constexpr (kWidth == 1 && std::is_same_v<S, X>) {
      *to = values.of[0];
    } else if constexpr (kWidth == 1) {
      *to = rounded<X>(values.of[0]);
    } else if constexpr (std::is_same_v<S, X>) {
      store_words(to, values);
    } else {
      Values<X, kWidth> narrow;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) narrow.of[j] = rounded<X>(values.of[j]);
      store(to, narrow);
    }
  }

  template <class Load, class Fold, class Store>
  __device__ __forceinline__ void each(std::int64_t n, int sources, const Load& load,
                                       const Fold& fold, const Store& store) const {
    using V = decltype(load(0, n));
    std::int64_t i = threadIdx.x;
    for (; i + (kAtOnce<V> - 1) * kBlockThreads < n; i += kAtOnce<V> * kBlockThreads)
      some<kAtOnce<V>, V>(i, sources, load, fold, store);
    for (; i < n; i += kBlockThreads) some<1, V>(i, sources, load, fold, store);
  }

  template <class Body>
  __device__ __forceinline__ bool together(int n, const Body& body) const {
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x);
    return __syncthreads_and(i >= n || body(i));
  }

  __device__ __forceinline__ std::uint32_t acquire(const std::uint32_t* flag) const {
    std::uint32_t value;
    if (across_devices_)
      asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    else
      asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
  }
  __device__ __forceinline__ void release(std::uint32_t* flag, std::uint32_t value) const {
    if (across_devices_)
      asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
    else
      asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
  }

  __device__ __forceinline__ static std::uint64_t now() {
    std::uint64_t nanoseconds;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
  }
  __device__ __forceinline__ static std::uint64_t error(const std::uint64_t* word) {
    std::uint64_t value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ __forceinline__ static void set_error(std::uint64_t* word, std::uint64_t value) {
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }

 private:
  template <int kCount, class V, class Load, class Fold, class Store>
  __device__ __forceinline__ static void some(std::int64_t i, int sources, const Load& load,
                                              const Fold& fold, const Store& store) {
    V values[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) values[j] = load(0, i + j * kBlockThreads);
#pragma unroll 1
    for (int k = 1; k < sources; ++k) {
      V next[kCount];
#pragma unroll
      for (int j = 0; j < kCount; ++j) next[j] = load(k, i + j * kBlockThreads);
#pragma unroll
      for (int j = 0; j < kCount; ++j) values[j] = fold(values[j], next[j]);
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) store(i + j * kBlockThreads, values[j]);
  }

  template <class X, int kWidth>
  __device__ __forceinline__ static void load_words(const X* from, Values<X, kWidth>& values) {
    uint4 words[sizeof(values) / 16];
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof(values) / 16); ++k)
      words[k] = reinterpret_cast<const uint4*>(from)[k];
    memcpy(&values, words, sizeof(values));
  }
  template <class X, int kWidth>
  __device__ __forceinline__ static void store_words(X* to, const Values<X, kWidth>& values) {
    uint4 words[sizeof(values) / 16];
    memcpy(words, &values, sizeof(values));
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof(values) / 16); ++k)
      reinterpret_cast<uint4*>(to)[k] = words[k];
  }

  bool across_devices_;
};

// ---- kernels ------------------------------------------------------------------------------

template <class T, CombineOp op, Route route>
__global__ void __launch_bounds__(kBlockThreads, 1)
    all_reduce_blocks(const __grid_constant__ AllReduceRun run) {
  const int block = static_cast<int>(blockIdx.x), blocks = run.plan.blocks;
  const DeviceBlock device(run.view.across_devices);
  AllReduceBlock<T, op, route, DeviceBlock>(device, run, run.first_rank + block / blocks,
                                            block % blocks)
      .run();
}

// ---- launchers ----------------------------------------------------------------------------

using Kernel = void (*)(AllReduceRun);

template <class T, CombineOp op>
Kernel kernel_of(Route route) {
  return route == Route::ring ? all_reduce_blocks<T, op, Route::ring>
                              : all_reduce_blocks<T, op, Route::direct>;
}

Kernel kernel_of(DType dtype, CombineOp op, Route route) {
  Kernel kernel = nullptr;
  const auto typed = [&]<class T>() {
    kernel = op == CombineOp::max ? kernel_of<T, CombineOp::max>(route)
                                  : kernel_of<T, CombineOp::sum>(route);
  };
  if (dtype == DType::f16)
    typed.template operator()<float16>();
  else if (is_floating(dtype))
    dispatch_floating("all_reduce", dtype, typed);
  else
    dispatch_integer("all_reduce", dtype, typed);
  return kernel;
}

// Whether all data lies at multiples of 16 bytes; Error where it lies across elements.
bool is_packed(const PeerView& view, std::size_t itemsize) {
  bool packed = true;
  for (int rank = 0; rank < view.ranks; ++rank) {
    RINGLET_CHECK(reinterpret_cast<std::uintptr_t>(view.data[rank]) % itemsize == 0,
                  "[all_reduce] rank ", rank, "'s elements lie at an address that ", itemsize,
                  " does not divide");
    packed = packed && aligned16(view.data[rank]);
  }
  return packed;
}

}  // namespace

int most_all_reduce_blocks(Device device, int local_ranks) {
  int multiprocessors = 0;
  RINGLET_CUDA(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device.index));
  return multiprocessors / local_ranks;  // a block fits on each, whatever the dtype
}

AllReducePlan plan_all_reduce(Route route, std::span<const std::int64_t> edges, DType dtype,
                              int most_blocks, std::int64_t most_chunk_bytes) {
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  const auto size = static_cast<std::int64_t>(narrow ? sizeof(float) : itemsize(dtype));
  return plan_all_reduce(route, edges, most_blocks, kLeastChunkBytes / size,
                         most_chunk_bytes / size);
}

void all_reduce(const PeerView& view, const AllReducePlan& plan, DType dtype, CombineOp op,
                double scale, int first_rank, int local_ranks, double seconds, Device device) {
  RINGLET_CHECK_EQ(plan.ranks, view.ranks, "[all_reduce] ranks of the plan and the view");
  RINGLET_CHECK(0 <= first_rank && 1 <= local_ranks && first_rank + local_ranks <= view.ranks,
                "[all_reduce] ranks [", first_rank, ", ", first_rank + local_ranks, ") of ",
                view.ranks);
  check_all_reduce(view);
  if (plan.edge[plan.ranks] == 0) return;
  const AllReduceRun run{view,       plan,
                         first_rank, is_packed(view, itemsize(dtype)),
                         scale,      static_cast<std::uint64_t>(1e9 * seconds)};
  launch<Blocks::all_at_once>("all_reduce", device, kernel_of(dtype, op, plan.route),
                              static_cast<unsigned>(local_ranks * plan.blocks), kBlockThreads, 0,
                              run);
}

void check_all_reduce(const PeerView& view) {
  const std::uint64_t word = *static_cast<const volatile std::uint64_t*>(view.error);
  if (word != 0) fail("[all_reduce] ", describe(Stall::of(word)));
}

}  // namespace ringlet::cuda
