#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/combine.cuh"
#include "ringlet/cuda/packs.h"
#include "ringlet/cuda/register.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

/// Sources of one launch; its result is carried to the next launch unrounded.
constexpr int kMostSources = 64;

template <class T>
struct Sources {
  const T* data[kMostSources];
};

/// The input and output of a launch: it continues from `carry_in` of an earlier one, unless null.
/// It writes to `carry_out` for the next one, or to `out` if that is null.
template <class T>
struct Ends {
  T* out;
  const sum_t<T>* carry_in;
  sum_t<T>* carry_out;
  sum_t<T> scale;
};

// ---- element by element: any alignment ----------------------------------------------------

template <CombineOp op, class T>
__global__ void combine_elements(Ends<T> ends, Sources<T> sources, int count, std::int64_t begin,
                                 std::int64_t n) {
  using S = sum_t<T>;
  grid_stride(n - begin, [&](std::int64_t i) {
    const std::int64_t at = begin + i;
    S value = ends.carry_in ? ends.carry_in[at] : read(sources.data[0] + at);
    for (int k = ends.carry_in ? 0 : 1; k < count; ++k)
      value = combined<op>(value, read(sources.data[k] + at));
    if (ends.carry_out) {
      ends.carry_out[at] = value;
    } else {
      ends.out[at] = rounded<T>(scaled(value, ends.scale));
    }
  });
}

// ---- 16 bytes at a time: the sums of gradients --------------------------------------------

template <class T>
__global__ void combine_packs(T* out, Sources<T> sources, int count, std::int64_t packed,
                              compute_t<T> scale) {
  using S = compute_t<T>;
  grid_stride(packed / kPack<T>, [&](std::int64_t i) {
    const std::int64_t at = i * kPack<T>;
    S sum[kPack<T>];
    load_pack(sources.data[0] + at, sum);
    for (int k = 1; k < count; ++k) {
      S next[kPack<T>];
      load_pack(sources.data[k] + at, next);
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) sum[j] += next[j];
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
  for (int k = 0; k < count; ++k) out.data[k] = static_cast<const T*>(args.sources[first + k]);
  return out;
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
  using S = sum_t<T>;
  const bool several = args.count > kMostSources;
  const Workspace carried(device, several ? static_cast<std::size_t>(args.n) * sizeof(S) : 0);
  for (int first = 0; first < args.count; first += kMostSources) {
    const int left = args.count - first, count = left < kMostSources ? left : kMostSources;
    const Ends<T> ends{static_cast<T*>(args.out), first > 0 ? carried.as<S>() : nullptr,
                       count < left ? carried.as<S>() : nullptr, static_cast<S>(args.scale)};
    launch("combine", device, combine_elements<op, T>, grid_for(args.n - begin), kThreads, 0, ends,
           sources_of<T>(args, first, count), count, begin, args.n);
  }
}

template <class T>
void run(const CombineArgs& args, Device device) {
  check_elements_aligned(args, sizeof(T));
  if (args.op == CombineOp::max) return run<CombineOp::max, T>(args, 0, device);
  std::int64_t packed = 0;
  if constexpr (std::is_floating_point_v<compute_t<T>>)
    if (args.count <= kMostSources && all_aligned(args)) {
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
