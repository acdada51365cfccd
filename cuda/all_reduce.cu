#include "ringlet/cuda/all_reduce.h"

#include "ringlet/cuda/all_reduce_block.cuh"
#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/launch.h"

namespace ringlet::cuda {
namespace {

// ---- kernels ------------------------------------------------------------------------------

template <class T, CombineOp op, Route route>
__global__ void __launch_bounds__(kBlockThreads, 1)
    all_reduce_blocks(const __grid_constant__ AllReduceRun run) {
  const int block = static_cast<int>(blockIdx.x), blocks = run.plan.blocks;
  const DeviceBlock device;
  AllReduceBlock<T, op, route, DeviceBlock>(device, run, block / blocks, block % blocks).run();
}

// ---- launchers ----------------------------------------------------------------------------

using AllReduceKernel = void (*)(AllReduceRun);

template <class T, CombineOp op>
AllReduceKernel kernel_of(Route route) {
  return route == Route::ring ? all_reduce_blocks<T, op, Route::ring>
                              : all_reduce_blocks<T, op, Route::direct>;
}

AllReduceKernel kernel_of(DType dtype, CombineOp op, Route route) {
  AllReduceKernel kernel = nullptr;
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

// Whether all data lies at multiples of 16 bytes; Error if data is not aligned to its elements.
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

int most_all_reduce_blocks(Device device, int ranks) {
  int multiprocessors = 0;
  RINGLET_CUDA(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device.index));
  return multiprocessors / ranks;  // one block fits on each multiprocessor, for every dtype
}

AllReducePlan plan_all_reduce(Route route, std::span<const std::int64_t> edges, DType dtype,
                              int most_blocks, std::int64_t most_chunk_bytes) {
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  const auto size = static_cast<std::int64_t>(narrow ? sizeof(float) : itemsize(dtype));
  return plan_all_reduce(route, edges, most_blocks, kLeastChunkBytes / size,
                         most_chunk_bytes / size);
}

void all_reduce(const PeerView& view, const AllReducePlan& plan, DType dtype, CombineOp op,
                double scale, int launched, double seconds, Device device) {
  RINGLET_CHECK_EQ(plan.ranks, view.ranks, "[all_reduce] ranks of the plan and the view");
  RINGLET_CHECK(1 <= launched && launched <= view.ranks, "[all_reduce] a launch of ", launched,
                " of ", view.ranks, " ranks");
  RINGLET_CHECK(scale == 1 || (is_floating(dtype) && op == CombineOp::sum), "[all_reduce] scale ",
                scale, ": only sums of floating types take one other than 1");
  RINGLET_CHECK(0 < seconds && seconds < 1e9, "[all_reduce] waits of ", seconds, " s");
  check_all_reduce(view);
  if (plan.edge[plan.ranks] == 0) return;
  const AllReduceRun run{view, plan, is_packed(view, itemsize(dtype)), scale,
                         static_cast<std::uint64_t>(1e9 * seconds)};
  launch<Blocks::all_at_once>("all_reduce", device, kernel_of(dtype, op, plan.route),
                              static_cast<unsigned>(launched * plan.blocks), kBlockThreads, 0, run);
}

void check_all_reduce(const PeerView& view) {
  const std::uint64_t word = *static_cast<const volatile std::uint64_t*>(view.error);
  if (word != 0) fail("[all_reduce] ", describe(Stall::of(word)));
}

}  // namespace ringlet::cuda
