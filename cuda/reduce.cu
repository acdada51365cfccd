#include "ringlet/core/ops/reduce.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/divider.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/reduce.cuh"
#include "ringlet/cuda/reduce_plan.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

// NaN wins over all.
struct Largest {
  template <class S>
  static __device__ __forceinline__ S identity() {
    return -INFINITY;
  }
  template <class S>
  static __device__ __forceinline__ S combine(S a, S b) {
    return a != a ? a : (b > a || b != b ? b : a);
  }
};
struct Smallest {
  template <class S>
  static __device__ __forceinline__ S identity() {
    return INFINITY;
  }
  template <class S>
  static __device__ __forceinline__ S combine(S a, S b) {
    return a != a ? a : (b < a || b != b ? b : a);
  }
};

/// One launch: in (outer, n, inner) -> out (outer, chunks, inner), divided by `divisor`.
template <class In, class Out>
struct Stage {
  Out* out;
  const In* in;
  std::int64_t outer, n, inner;
  Divider chunks;
  std::int64_t length;  // of a chunk
  compute_t<In> divisor;

  __device__ __forceinline__ std::int64_t end(std::int64_t begin) const {
    return begin + length < n ? begin + length : n;
  }
  __device__ __forceinline__ void write(std::int64_t at, compute_t<In> value) const {
    out[at] = from_compute<Out>(value / divisor);
  }
};

// inner = 1: one warp per chunk of a row. A lane takes 16 bytes at a stride of 512, and adds each
// of their elements to a separate sum, with vector loads (`aligned`) or without.
template <class Combine, class In, class Out>
__global__ void reduce_rows(Stage<In, Out> s, bool aligned) {
  using S = compute_t<In>;
  constexpr int kElements = kPack<In>;
  const std::int64_t warps = std::int64_t{gridDim.x} * (blockDim.x / kWarp);
  const std::int64_t first = std::int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t unit = first; unit < s.outer * s.chunks.divisor(); unit += warps) {
    const Division at = divide(unit, s.chunks);
    const In* row = s.in + at.quotient * s.n;
    const std::int64_t begin = at.remainder * s.length, end = s.end(begin);
    S part[kElements];
#pragma unroll
    for (int k = 0; k < kElements; ++k) part[k] = Combine::template identity<S>();
#pragma unroll 4
    for (std::int64_t i = begin + lane * kElements; i < end; i += kWarp * kElements) {
      S x[kElements];
      if (aligned && i + kElements <= end) {
        load_pack(row + i, x);
      } else {
#pragma unroll
        for (int k = 0; k < kElements; ++k)
          x[k] = i + k < end ? to_compute(row[i + k]) : Combine::template identity<S>();
      }
#pragma unroll
      for (int k = 0; k < kElements; ++k) part[k] = Combine::combine(part[k], x[k]);
    }
#pragma unroll
    for (int half = kElements / 2; half > 0; half /= 2)
#pragma unroll
      for (int k = 0; k < half; ++k) part[k] = Combine::combine(part[k], part[k + half]);
    const S all = warp_reduce<Combine>(part[0]);
    if (lane == 0) s.write(unit, all);
  }
}

// inner > 1: one block per chunk of kReduceColumns columns, kReduceRows threads per column.
template <class Combine, class In, class Out>
__global__ void reduce_columns(Stage<In, Out> s, Divider tiles) {
  using S = compute_t<In>;
  __shared__ S parts[kReduceRows][kReduceColumns];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const std::int64_t units = s.outer * s.chunks.divisor() * tiles.divisor();
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const Division tile = divide(unit, tiles);
    const Division at = divide(tile.quotient, s.chunks);
    const std::int64_t column = tile.remainder * kReduceColumns + x;
    const In* in = s.in + at.quotient * s.n * s.inner + column;
    const std::int64_t begin = at.remainder * s.length, end = s.end(begin);
    // Starts from the first element, not from 0: a column of -0 sums to -0.
    S part = Combine::template identity<S>();
    if (column < s.inner && begin + y < end) {
      part = to_compute(in[(begin + y) * s.inner]);
#pragma unroll 4
      for (std::int64_t r = begin + y + kReduceRows; r < end; r += kReduceRows)
        part = Combine::combine(part, to_compute(in[r * s.inner]));
    }
    parts[y][x] = part;
    __syncthreads();
    if (y == 0 && column < s.inner) {
#pragma unroll
      for (int k = 1; k < kReduceRows; ++k)
        if (begin + k < end) part = Combine::combine(part, parts[k][x]);
      s.write(tile.quotient * s.inner + column, part);
    }
    __syncthreads();
  }
}

// ---- launchers ----------------------------------------------------------------------------

template <class Combine, class In, class Out>
void run_stage(void* out, const void* in, const ReduceArgs& args, std::int64_t n,
               const ReducePlan& plan, double divisor, Device device) {
  const Stage<In, Out> stage{static_cast<Out*>(out),
                             static_cast<const In*>(in),
                             args.outer,
                             n,
                             args.inner,
                             Divider(plan.chunks),
                             plan.length,
                             static_cast<compute_t<In>>(divisor)};
  if (args.inner == 1) {
    const bool aligned = aligned16(in) && (args.outer == 1 || n % kPack<In> == 0);
    return launch("reduce", device, reduce_rows<Combine, In, Out>,
                  grid_for(args.outer * plan.chunks, kThreads / kWarp), kThreads, 0, stage,
                  aligned);
  }
  const std::int64_t tiles = (args.inner + kReduceColumns - 1) / kReduceColumns;
  launch("reduce", device, reduce_columns<Combine, In, Out>,
         grid_for(args.outer * plan.chunks * tiles, 1), dim3(kReduceColumns, kReduceRows), 0, stage,
         Divider(tiles));
}

template <class Combine, class T, class S = compute_t<T>>
void run(const ReduceArgs& args, Device device) {
  const ReducePlan plan = plan_reduce(args.n, args.inner == 1);
  const double divisor = args.op == ReduceOp::mean ? static_cast<double>(args.n) : 1;
  if (plan.chunks == 1)
    return run_stage<Combine, T, T>(args.out, args.in, args, args.n, plan, divisor, device);
  const Workspace parts(
      device, static_cast<std::size_t>(args.outer * plan.chunks * args.inner) * sizeof(S));
  run_stage<Combine, T, S>(parts.data(), args.in, args, args.n, plan, 1, device);
  run_stage<Combine, S, T>(args.out, parts.data(), args, plan.chunks, {1, plan.chunks}, divisor,
                           device);
}

template <class T>
void reduce(const ReduceArgs& args, Device device) {
  if (args.op == ReduceOp::max) return run<Largest, T>(args, device);
  if (args.op == ReduceOp::min) return run<Smallest, T>(args, device);
  run<Sum, T>(args, device);
}

}  // namespace

void register_reduce() { RINGLET_SET_FLOATING(cuda, reduce); }

}  // namespace ringlet::cuda
