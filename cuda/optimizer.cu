#include "ringlet/core/ops/optimizer.h"

#include "ringlet/core/clip.h"
#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/optimizer_step.h"
#include "ringlet/cuda/reduce.cuh"
#include "ringlet/cuda/register.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/vector_span.h"

namespace ringlet::cuda {
namespace {

template <class Body>
void dispatch_master(const char* op, DType dtype, Body&& body) {
  if (dtype == DType::f32) return body.template operator()<float>();
  if (dtype == DType::f64) return body.template operator()<double>();
  unsupported_dtype(op, dtype);
}

// A pack a thread at a time, and then the elements around the packs one by one:
// body(begin, std::integral_constant<int, count>()).
template <class T, class Body>
__device__ __forceinline__ void for_span(const VectorSpan& span, Body&& body) {
  grid_stride(span.packs, [&](std::int64_t i) {
    body(span.begin(i), std::integral_constant<int, kPack<T>>());
  });
  grid_stride(span.singles(),
              [&](std::int64_t i) { body(span.single(i), std::integral_constant<int, 1>()); });
}

template <class T, int kCount>
__device__ __forceinline__ void load_some(const T* from, T (&to)[kCount]) {
  if constexpr (kCount == 1)
    to[0] = from[0];
  else
    load_pack(from, to);
}
template <class T, int kCount>
__device__ __forceinline__ void store_some(T* to, const T (&from)[kCount]) {
  if constexpr (kCount == 1)
    to[0] = from[0];
  else
    store_pack(to, from);
}

// ---- AdamW --------------------------------------------------------------------------------

// One thread divides for its block.
template <class T>
__global__ void __launch_bounds__(kThreads) adamw_elements(VectorSpan span, AdamWArgs args) {
  if (is_none(*args.grad_scale)) return;
  __shared__ AdamWFactors<T> shared;
  if (threadIdx.x == 0) shared = adamw_factors<T>(args);
  __syncthreads();
  const AdamWFactors<T> factors = shared;
  auto *param = static_cast<T*>(args.param), *exp_avg = static_cast<T*>(args.exp_avg);
  auto* exp_avg_sq = static_cast<T*>(args.exp_avg_sq);
  const auto* grad = static_cast<const T*>(args.grad);
  for_span<T>(span, [&](std::int64_t at, auto count) {
    constexpr int kCount = decltype(count)::value;
    T p[kCount], g[kCount], m[kCount], v[kCount];
    load_some(param + at, p);
    load_some(grad + at, g);
    load_some(exp_avg + at, m);
    load_some(exp_avg_sq + at, v);
#pragma unroll
    for (int i = 0; i < kCount; ++i) adamw_element(factors, p[i], g[i], m[i], v[i]);
    store_some(param + at, p);
    store_some(exp_avg + at, m);
    store_some(exp_avg_sq + at, v);
  });
}

void adamw(const AdamWArgs& args, Device device) {
  dispatch_master("adamw", args.dtype, [&]<class T>() {
    const VectorSpan span =
        vector_span(args.n, sizeof(T), args.param, args.grad, args.exp_avg, args.exp_avg_sq);
    launch("adamw", device, adamw_elements<T>, grid_for(span.work()), kThreads, 0, span, args);
  });
}

// ---- SGD ----------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads) sgd_elements(VectorSpan span, SGDArgs args) {
  if (is_none(*args.grad_scale)) return;
  const SGDFactors<T> factors = sgd_factors<T>(args);
  auto *param = static_cast<T*>(args.param), *buffer = static_cast<T*>(args.momentum_buffer);
  const auto* grad = static_cast<const T*>(args.grad);
  for_span<T>(span, [&](std::int64_t at, auto count) {
    constexpr int kCount = decltype(count)::value;
    T p[kCount], g[kCount], b[kCount] = {};
    load_some(param + at, p);
    load_some(grad + at, g);
    if (factors.has_momentum) load_some(buffer + at, b);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sgd_element(factors, p[i], g[i], b[i]);
    if (factors.has_momentum) store_some(buffer + at, b);
    store_some(param + at, p);
  });
}

void sgd(const SGDArgs& args, Device device) {
  dispatch_master("sgd", args.dtype, [&]<class T>() {
    const VectorSpan span =
        vector_span(args.n, sizeof(T), args.param, args.grad, args.momentum_buffer);
    launch("sgd", device, sgd_elements<T>, grid_for(span.work()), kThreads, 0, span, args);
  });
}

// ---- norms --------------------------------------------------------------------------------

// A warp for each block of kNormBlock elements.
template <class T>
__global__ void __launch_bounds__(kThreads) squared_norms(double* out, const T* x, std::int64_t n) {
  static_assert(kNormLanes == kWarp);
  constexpr int kWarps = kThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps * kNormBlock;
  for (std::int64_t begin = (std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp) * kNormBlock;
       begin < n; begin += step) {
    const auto count = static_cast<int>(n - begin < kNormBlock ? n - begin : kNormBlock);
    double total = norm_of_lane(x + begin, count, lane,
                                [](T value) { return static_cast<double>(to_compute(value)); });
#pragma unroll
    for (int i = 0; i < kNormFolds; ++i) total += __shfl_xor_sync(kAllLanes, total, norm_fold(i));
    if (lane == 0) out[begin / kNormBlock] = total;
  }
}

void squared_norm(const SquaredNormArgs& args, Device device) {
  dispatch_floating("squared_norm", args.dtype, [&]<class T>() {
    launch("squared_norm", device, squared_norms<T>,
           grid_for(args.n, kThreads / kWarp * kNormBlock), kThreads, 0, args.out,
           static_cast<const T*>(args.x), args.n);
  });
}

// One block: a thread for each lane.
__global__ void __launch_bounds__(kClipLanes) clip_lanes(ClipFactorArgs args) {
  __shared__ double lanes[kClipLanes];
  const auto lane = static_cast<int>(threadIdx.x);
  lanes[lane] = clip_lane(args.blocks, args.n, lane);
  for (int half = kClipLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) lanes[lane] += lanes[lane + half];
  }
  if (lane > 0) return;
  write_clip(args.out, lanes[0], args.blocks, args.n, args.max_norm, args.check_finite);
}

void clip_factor(const ClipFactorArgs& args, Device device) {
  launch("clip_factor", device, clip_lanes, 1, kClipLanes, 0, args);
}

}  // namespace

void register_optimizer() {
  adamw_kernel.set(DeviceType::cuda, adamw);
  sgd_kernel.set(DeviceType::cuda, sgd);
  squared_norm_kernel.set(DeviceType::cuda, squared_norm);
  clip_factor_kernel.set(DeviceType::cuda, clip_factor);
}

}  // namespace ringlet::cuda
