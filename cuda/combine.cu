#include <algorithm>
#include <limits>

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/combine.cuh"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

/// Sources of one launch; its stack is carried to the next launch unrounded.
constexpr int kMostSources = 64;

template <class T>
struct Sources {
  const T* data[kMostSources];
  std::uint8_t additions[kMostSources];  // after each
};

/// The input and output of a launch. It continues from `depth_in` sums of an earlier one in
/// `carried` (depth, n). It leaves `depth_out` sums there; the last one, which leaves none, writes
/// to `out`.
template <class T>
struct Ends {
  T* out;
  compute_t<T>* carried;
  int depth_in, depth_out;
  compute_t<T> scale;
};

// ---- element by element: any alignment ----------------------------------------------------

template <CombineOp op, class T>
__global__ void combine_elements(Ends<T> ends, Sources<T> sources, int count, std::int64_t begin,
                                 std::int64_t n) {
  using S = compute_t<T>;
  grid_stride(n - begin, [&](std::int64_t i) {
    const std::int64_t at = begin + i;
    S stack[std::numeric_limits<int>::digits];
    int depth = 0;
    for (; depth < ends.depth_in; ++depth) stack[depth] = ends.carried[depth * n + at];
    for (int k = 0; k < count; ++k) {
      stack[depth++] = to_compute(sources.data[k][at]);
      for (int left = sources.additions[k]; left > 0; --left, --depth)
        stack[depth - 2] = combined<op>(stack[depth - 2], stack[depth - 1]);
    }
    if (ends.depth_out == 0) ends.out[at] = from_compute<T>(scaled(stack[0], ends.scale));
    for (depth = 0; depth < ends.depth_out; ++depth) ends.carried[depth * n + at] = stack[depth];
  });
}

// ---- 16 bytes at a time: the sums of gradients --------------------------------------------

/// Waiting sums shift, so that they stay in registers.
template <class T>
__global__ void combine_packs(T* out, Sources<T> sources, int count, std::int64_t packed,
                              compute_t<T> scale) {
  using S = compute_t<T>;
  grid_stride(packed / kPack<T>, [&](std::int64_t i) {
    const std::int64_t at = i * kPack<T>;
    S sum[kPack<T>], next[kPack<T>], waiting[kMostWaiting][kPack<T>];
    load_pack(sources.data[0] + at, sum);
    for (int k = 1; k < count; ++k) {
      load_pack(sources.data[k] + at, next);
      const int additions = sources.additions[k];
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) {
        if (additions > 0) {
          sum[j] += next[j];
          continue;
        }
#pragma unroll
        for (int d = kMostWaiting - 1; d > 0; --d) waiting[d][j] = waiting[d - 1][j];
        waiting[0][j] = sum[j];
        sum[j] = next[j];
      }
      for (int left = additions; left > 1; --left)
#pragma unroll
        for (int j = 0; j < kPack<T>; ++j) {
          sum[j] = waiting[0][j] + sum[j];
#pragma unroll
          for (int d = 1; d < kMostWaiting; ++d) waiting[d - 1][j] = waiting[d][j];
        }
    }
    if (scale != S{1})
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) sum[j] *= scale;
    store_pack(out + at, sum);
  });
}

// ---- launchers ----------------------------------------------------------------------------

template <class T>
Sources<T> sources_of(const CombineArgs& args, int first, int count) {
  Sources<T> out{};
  for (int k = 0; k < count; ++k) {
    out.data[k] = static_cast<const T*>(args.sources[first + k]);
    out.additions[k] = static_cast<std::uint8_t>(args.additions_after(first + k));
  }
  return out;
}

/// The most sums on the stack after a source and its additions.
int most_depth(const CombineArgs& args) {
  int most = 0;
  for (int k = 0, depth = 0; k < args.count; ++k)
    most = std::max(most, depth += 1 - args.additions_after(k));
  return most;
}

bool all_aligned(const CombineArgs& args) {
  bool aligned = aligned16(args.out);
  for (int k = 0; k < args.count; ++k) aligned = aligned && aligned16(args.sources[k]);
  return aligned;
}

// A device cannot read elements at unaligned addresses.
void check_elements_aligned(const CombineArgs& args, std::size_t itemsize) {
  const auto check = [&](const void* data) {
    RINGLET_CHECK(reinterpret_cast<std::uintptr_t>(data) % itemsize == 0, "[combine] ", args.dtype,
                  " elements at an address that ", itemsize, " does not divide");
  };
  check(args.out);
  for (int k = 0; k < args.count; ++k) check(args.sources[k]);
}

// kMostSources sources per launch, with f32 (f64, the integer) between launches.
template <CombineOp op, class T>
void run(const CombineArgs& args, std::int64_t begin, Device device) {
  using S = compute_t<T>;
  const auto arrays = static_cast<std::size_t>(args.count > kMostSources ? most_depth(args) : 0);
  const Workspace carried(device, arrays * static_cast<std::size_t>(args.n) * sizeof(S));
  Ends<T> ends{static_cast<T*>(args.out), carried.as<S>(), 0, 0, static_cast<S>(args.scale)};
  for (int first = 0; first < args.count; first += kMostSources) {
    const int left = args.count - first, count = left < kMostSources ? left : kMostSources;
    ends.depth_in = ends.depth_out;
    for (int k = first; k < first + count; ++k) ends.depth_out += 1 - args.additions_after(k);
    if (count == left) ends.depth_out = 0;
    launch("combine", device, combine_elements<op, T>, grid_for(args.n - begin), kThreads, 0, ends,
           sources_of<T>(args, first, count), count, begin, args.n);
  }
}

template <class T>
void run(const CombineArgs& args, Device device) {
  check_elements_aligned(args, sizeof(T));
  if (args.op == CombineOp::max) return run<CombineOp::max, T>(args, 0, device);
  std::int64_t packed = 0;
  if constexpr (std::is_floating_point_v<compute_t<T>> && !std::is_same_v<T, float16>)
    if (args.count <= kMostSources && most_depth(args) <= 1 + kMostWaiting && all_aligned(args)) {
      packed = args.n - args.n % kPack<T>;
      launch("combine", device, combine_packs<T>, grid_for(packed / kPack<T>), kThreads, 0,
             static_cast<T*>(args.out), sources_of<T>(args, 0, args.count), args.count, packed,
             args.scale);
    }
  run<CombineOp::sum, T>(args, packed, device);
}

void combine(const CombineArgs& args, Device device) {
  dispatch_all("combine", args.dtype, [&]<class T>() { run<T>(args, device); });
}

}  // namespace

void register_combine() { combine_kernel.set(DeviceType::cuda, combine); }

}  // namespace ringlet::cuda
