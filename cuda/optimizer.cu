#include "ringlet/core/ops/optimizer.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/core/ops/clip.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/pack.h"
#include "ringlet/cuda/reduce.cuh"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

// How the blocks of a grid divide a run of parameters: into tiles with edges at packs. Segments may
// begin anywhere; only the packs at their edges are processed element by element.

/// In elements; far more than a block has threads, so that the search for segments costs nothing.
inline constexpr std::int64_t kUpdateTile = 4096;

struct UpdateTiles {
  VectorSpan run;

  RINGLET_HOST_DEVICE std::int64_t count() const {
    return (run.n + missing() + kUpdateTile - 1) / kUpdateTile;
  }
  RINGLET_HOST_DEVICE std::int64_t begin(std::int64_t tile) const {
    return tile == 0 ? 0 : tile * kUpdateTile - missing();
  }
  RINGLET_HOST_DEVICE std::int64_t end(std::int64_t tile) const {
    const std::int64_t end = (tile + 1) * kUpdateTile - missing();
    return end < run.n ? end : run.n;
  }

 private:
  /// The first tile is shorter by this many elements, so that the later ones begin with a pack.
  RINGLET_HOST_DEVICE std::int64_t missing() const {
    return run.packs > 0 && run.head > 0 ? run.pack - run.head : 0;
  }
};

namespace {

template <class Body>
void dispatch_master(const char* op, DType dtype, Body&& body) {
  if (dtype == DType::f32) return body.template operator()<float>();
  if (dtype == DType::f64) return body.template operator()<double>();
  unsupported_dtype(op, dtype);
}

// A block takes one tile at a time: body(segment, begin, end), in all of its threads, for each
// segment's part of the tile.
template <class Body>
__device__ __forceinline__ void for_tiles(const UpdateTiles& tiles, const StepSegments& segments,
                                          Body&& body) {
  for (std::int64_t tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x)
    for_segments(segments, tiles.begin(tile), tiles.end(tile), body);
}

// A block's part of a run: one pack per thread, then the single elements around the packs:
// body(begin, std::integral_constant<int, count>()).
template <class T, class Body>
__device__ __forceinline__ void for_part(const VectorSpan& part, Body&& body) {
  const auto threads = static_cast<int>(blockDim.x);
  for (auto i = static_cast<int>(threadIdx.x); i < part.packs; i += threads)
    body(part.begin(i), std::integral_constant<int, kPack<T>>());
  for (auto i = static_cast<int>(threadIdx.x); i < part.singles(); i += threads)
    body(part.single(i), std::integral_constant<int, 1>());
}

// Parameters, and their rounded copy unless `rounded` is null.
template <class T, int kCount>
__device__ __forceinline__ void store_params(T* to, bfloat16* rounded, std::int64_t at,
                                             const T (&from)[kCount]) {
  store_run(to + at, from);
  if constexpr (std::is_same_v<T, float>) {
    if (!rounded) return;
    if constexpr (kCount == 1)
      rounded[at] = from_compute<bfloat16>(from[0]);
    else
      store_half_pack(rounded + at, from);
  }
}

// ---- AdamW: the operations of core/cpu/optimizer.cpp --------------------------------------

template <class T>
struct AdamWFactors {
  T scale, decay, one_minus_beta1, beta2, one_minus_beta2, eps, step, root;
};
/// The factors of one segment, from the current values of `args.scalars` and `args.grad_scale`.
template <class T>
__device__ __forceinline__ AdamWFactors<T> adamw_factors(const AdamWArgs& args,
                                                         std::int64_t segment) {
  const double* const scalars = args.scalars + 4 * segment;
  const double lr = scalars[0], weight_decay = scalars[1];
  return {static_cast<T>(*args.grad_scale), static_cast<T>(1 - lr * weight_decay),
          static_cast<T>(1 - args.beta1),   static_cast<T>(args.beta2),
          static_cast<T>(1 - args.beta2),   static_cast<T>(args.eps),
          static_cast<T>(-lr / scalars[2]), static_cast<T>(1 / ::sqrt(scalars[3]))};
}

template <class T>
__device__ __forceinline__ void adamw_element(const AdamWFactors<T>& f, T& param, T grad, T& m,
                                              T& v) {
  const T g = grad * f.scale;
  m = ::fma(f.one_minus_beta1, g - m, m);
  v = ::fma(f.one_minus_beta2 * g, g, f.beta2 * v);
  param = ::fma(f.step, m / ::fma(::sqrt(v), f.root, f.eps), param * f.decay);
}

// Whether the gradient's elements [begin, end), in at most two blocks of the norm, are zeros.
__device__ __forceinline__ bool has_zeros(const double* blocks, std::int64_t begin,
                                          std::int64_t end) {
  static_assert(kUpdateTile <= kNormBlock);
  constexpr auto kBlock = static_cast<std::uint64_t>(kNormBlock);  // a division by a shift
  return blocks && blocks[static_cast<std::uint64_t>(begin) / kBlock] == 0 &&
         blocks[static_cast<std::uint64_t>(end - 1) / kBlock] == 0;
}

template <class T>
__device__ __forceinline__ void adamw_part(const AdamWArgs& args, const AdamWFactors<T>& factors,
                                           const VectorSpan& part, std::int64_t begin) {
  auto* const param = static_cast<T*>(args.param) + begin;
  auto* const rounded = args.rounded ? static_cast<bfloat16*>(args.rounded) + begin : nullptr;
  auto* const exp_avg = static_cast<T*>(args.exp_avg) + begin;
  auto* const exp_avg_sq = static_cast<T*>(args.exp_avg_sq) + begin;
  const auto* const grad = static_cast<const T*>(args.grad) + begin;
  const auto update = [&](auto zeros) {
    for_part<T>(part, [&](std::int64_t at, auto count) {
      constexpr int kCount = decltype(count)::value;
      T p[kCount], g[kCount] = {}, m[kCount], v[kCount];
      load_run(param + at, p);
      if constexpr (!zeros) load_run(grad + at, g);
      load_run(exp_avg + at, m);
      load_run(exp_avg_sq + at, v);
#pragma unroll
      for (int i = 0; i < kCount; ++i) adamw_element(factors, p[i], g[i], m[i], v[i]);
      store_params(param, rounded, at, p);
      store_run(exp_avg + at, m);
      store_run(exp_avg_sq + at, v);
    });
  };
  if (has_zeros(args.blocks, begin, begin + part.n))
    update(std::true_type{});
  else
    update(std::false_type{});
}

// One thread computes the factors for its block, again at each new segment.
template <class T>
__global__ void __launch_bounds__(kThreads) adamw_tiles(UpdateTiles tiles, AdamWArgs args) {
  if (is_none(*args.grad_scale)) return;
  __shared__ AdamWFactors<T> factors;
  std::int64_t known = -1;
  for_tiles(tiles, args.segments, [&](std::int64_t segment, std::int64_t begin, std::int64_t end) {
    if (segment != known) {
      __syncthreads();  // other threads may still read the factors
      if (threadIdx.x == 0) factors = adamw_factors<T>(args, segment);
      __syncthreads();
      known = segment;
    }
    const AdamWFactors<T> own = factors;
    adamw_part(args, own, tiles.run.part(begin, end), begin);
  });
}

void adamw(const AdamWArgs& args, Device device) {
  dispatch_master("adamw", args.dtype, [&]<class T>() {
    const UpdateTiles tiles{vector_span(args.n, sizeof(T), args.param, args.grad, args.exp_avg,
                                        args.exp_avg_sq, as_wide(args.rounded))};
    launch("adamw", device, adamw_tiles<T>, grid_for(tiles.count(), 1), kThreads, 0, tiles, args);
  });
}

// ---- SGD: the operations of core/cpu/optimizer.cpp ----------------------------------------

template <class T>
struct SGDFactors {
  T scale, decay, momentum, lr;
  bool has_momentum, nesterov;
};
template <class T>
__device__ __forceinline__ SGDFactors<T> sgd_factors(const SGDArgs& args, std::int64_t segment) {
  const double* const scalars = args.scalars + 2 * segment;
  return {static_cast<T>(*args.grad_scale), static_cast<T>(scalars[1]),
          static_cast<T>(args.momentum),    static_cast<T>(-scalars[0]),
          args.momentum_buffer != nullptr,  args.nesterov};
}

/// `buffer` is used only with momentum.
template <class T>
__device__ __forceinline__ void sgd_element(const SGDFactors<T>& f, T& param, T grad, T& buffer) {
  T g = ::fma(f.decay, param, grad * f.scale);
  if (f.has_momentum) {
    buffer = ::fma(f.momentum, buffer, g);
    g = f.nesterov ? ::fma(f.momentum, buffer, g) : buffer;
  }
  param = ::fma(f.lr, g, param);
}

template <class T>
__device__ __forceinline__ void sgd_part(const SGDArgs& args, const SGDFactors<T>& factors,
                                         const VectorSpan& part, std::int64_t begin) {
  auto* const param = static_cast<T*>(args.param) + begin;
  auto* const rounded = args.rounded ? static_cast<bfloat16*>(args.rounded) + begin : nullptr;
  auto* const buffer =
      factors.has_momentum ? static_cast<T*>(args.momentum_buffer) + begin : nullptr;
  const auto* const grad = static_cast<const T*>(args.grad) + begin;
  for_part<T>(part, [&](std::int64_t at, auto count) {
    constexpr int kCount = decltype(count)::value;
    T p[kCount], g[kCount], b[kCount] = {};
    load_run(param + at, p);
    load_run(grad + at, g);
    if (factors.has_momentum) load_run(buffer + at, b);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sgd_element(factors, p[i], g[i], b[i]);
    if (factors.has_momentum) store_run(buffer + at, b);
    store_params(param, rounded, at, p);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) sgd_tiles(UpdateTiles tiles, SGDArgs args) {
  if (is_none(*args.grad_scale)) return;
  for_tiles(tiles, args.segments, [&](std::int64_t segment, std::int64_t begin, std::int64_t end) {
    sgd_part(args, sgd_factors<T>(args, segment), tiles.run.part(begin, end), begin);
  });
}

void sgd(const SGDArgs& args, Device device) {
  dispatch_master("sgd", args.dtype, [&]<class T>() {
    const UpdateTiles tiles{vector_span(args.n, sizeof(T), args.param, args.grad,
                                        args.momentum_buffer, as_wide(args.rounded))};
    launch("sgd", device, sgd_tiles<T>, grid_for(tiles.count(), 1), kThreads, 0, tiles, args);
  });
}

// ---- norms --------------------------------------------------------------------------------

// One warp per block of kNormBlock elements. Lane l adds the squares of x[l], x[l + 32], …; then
// lanes are added in pairs at these distances, as on the CPU.
template <class T>
__global__ void __launch_bounds__(kThreads) squared_norms(double* out, const T* x, std::int64_t n) {
  constexpr int kWarps = kThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps * kNormBlock;
  for (std::int64_t begin = (std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp) * kNormBlock;
       begin < n; begin += step) {
    const auto count = static_cast<int>(n - begin < kNormBlock ? n - begin : kNormBlock);
    double total = 0;
#pragma unroll 16
    for (int i = lane; i < count; i += kWarp) {
      const double value = to_compute(x[begin + i]);
      total = ::fma(value, value, total);
    }
    constexpr int kApart[] = {8, 16, 4, 2, 1};
#pragma unroll
    for (int i = 0; i < 5; ++i) total += __shfl_xor_sync(kAllLanes, total, kApart[i]);
    if (lane == 0) out[begin / kNormBlock] = total;
  }
}

template <class T>
void squared_norm(const SquaredNormArgs& args, Device device) {
  launch("squared_norm", device, squared_norms<T>, grid_for(args.n, kThreads / kWarp * kNormBlock),
         kThreads, 0, args.out, static_cast<const T*>(args.x), args.n);
}

// One block: one thread per lane.
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
  RINGLET_SET_FLOATING(cuda, squared_norm);
  clip_factor_kernel.set(DeviceType::cuda, clip_factor);
}

}  // namespace ringlet::cuda
