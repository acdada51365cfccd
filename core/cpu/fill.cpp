#include "ringlet/core/ops/fill.h"

#include <type_traits>

#include "ringlet/core/base/convert.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr std::int64_t kFillGrain = 1 << 15;

void fill(const FillArgs& args, Device device) {
  dispatch_all("fill", args.dtype, [&]<class T>() {
    T* const out = static_cast<T*>(args.out);
    for_each(device, args.n, kFillGrain,
             [out, start = args.start, step = args.step](std::int64_t i) {
               out[i] = convert<T>(filled(start, step, i));
             });
  });
}

// Casts between f32 and bf16, the frequent ones of a step, use vectors.
template <class To, class From>
void cast_run(To* out, const From* in, std::int64_t n) {
  constexpr bool narrows = std::is_same_v<To, bfloat16> && std::is_same_v<From, float>;
  constexpr bool widens = std::is_same_v<To, float> && std::is_same_v<From, bfloat16>;
  if constexpr (narrows || widens) {
    for_vectors<From>(n, [&](std::int64_t i, std::int64_t count) {
      store_at(out, i, count, load_at(in, i, count));
    });
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = convert<To>(in[i]);
  }
}

void cast(const CastArgs& args, Device device) {
  dispatch_all("fill", args.out_dtype, [&]<class To>() {
    dispatch_all("fill", args.in_dtype, [&]<class From>() {
      parallel_for(device, args.n, kFillGrain, [&](std::int64_t begin, std::int64_t end) {
        cast_run(static_cast<To*>(args.out) + begin, static_cast<const From*>(args.in) + begin,
                 end - begin);
      });
    });
  });
}

}  // namespace

void register_fill() {
  fill_kernel.set(DeviceType::cpu, fill);
  cast_kernel.set(DeviceType::cpu, cast);
}

}  // namespace ringlet::cpu::RINGLET_ISA
