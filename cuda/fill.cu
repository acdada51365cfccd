#include "ringlet/core/ops/fill.h"

#include "ringlet/core/base/convert.h"
#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {
namespace {

// core's convert(), with the device's conversions of bf16 and f16.
template <class To, class From>
__device__ __forceinline__ To converted(From value) {
  return from_compute<To>(convert<compute_t<To>>(to_compute(value)));
}

template <class T>
__global__ void fill_elements(T* out, std::int64_t n, double start, double step) {
  grid_stride(n, [&](std::int64_t i) { out[i] = converted<T>(filled(start, step, i)); });
}

template <class To, class From>
__global__ void cast_elements(To* out, const From* in, std::int64_t n) {
  grid_stride(n, [&](std::int64_t i) { out[i] = converted<To>(in[i]); });
}

// Eight elements per thread; the first threads take the last n % 8.
template <class To, class From>
__global__ void cast_packs(To* out, const From* in, std::int64_t n) {
  constexpr int kRun = 8;
  grid_stride(n / kRun, [&](std::int64_t i) {
    float values[kRun];
    load_run(in + i * kRun, values);
    store_run(out + i * kRun, values);
  });
  const std::int64_t tail = n - n % kRun + std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (tail < n) out[tail] = converted<To>(in[tail]);
}

// ---- launchers ----------------------------------------------------------------------------

void fill(const FillArgs& args, Device device) {
  dispatch_all("fill", args.dtype, [&]<class T>() {
    launch("fill", device, fill_elements<T>, grid_for(args.n), kThreads, 0,
           static_cast<T*>(args.out), args.n, args.start, args.step);
  });
}

template <class To, class From>
void cast_to(const CastArgs& args, Device device) {
  auto* out = static_cast<To*>(args.out);
  const auto* in = static_cast<const From*>(args.in);
  constexpr bool narrows = std::is_same_v<To, bfloat16> && std::is_same_v<From, float>;
  constexpr bool widens = std::is_same_v<To, float> && std::is_same_v<From, bfloat16>;
  if constexpr (narrows || widens) {
    // This case is frequent: a step has many such casts.
    if (aligned16(out, in))
      return launch("cast", device, cast_packs<To, From>, grid_for(args.n, 8 * kThreads), kThreads,
                    0, out, in, args.n);
  }
  launch("cast", device, cast_elements<To, From>, grid_for(args.n), kThreads, 0, out, in, args.n);
}

void cast(const CastArgs& args, Device device) {
  dispatch_all("cast", args.out_dtype, [&]<class To>() {
    dispatch_all("cast", args.in_dtype, [&]<class From>() { cast_to<To, From>(args, device); });
  });
}

}  // namespace

void register_fill() {
  fill_kernel.set(DeviceType::cuda, fill);
  cast_kernel.set(DeviceType::cuda, cast);
}

}  // namespace ringlet::cuda
