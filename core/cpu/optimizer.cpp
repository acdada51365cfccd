#include "ringlet/core/ops/optimizer.h"

#include <type_traits>

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/device/dispatch.h"
#include "ringlet/core/ops/clip.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// Calls run(args, segment, begin, end) for the part of each segment in a thread's range. A refused
// step updates nothing.
template <class Args>
void step(const Args& args, Device device,
          void (*run)(const Args&, std::int64_t, std::int64_t, std::int64_t)) {
  if (is_none(*args.grad_scale)) return;
  parallel_for(device, args.n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for_segments(args.segments, begin, end, [&](auto... part) { run(args, part...); });
  });
}

// Stores a parameter and, unless `rounded` is null, its bf16 copy.
template <class T>
RINGLET_INLINE void store_param(T* param, bfloat16* rounded, std::int64_t i, std::int64_t count,
                                vector_t<T> value) {
  store_at(param, i, count, value);
  if constexpr (std::is_same_v<T, float>)
    if (rounded) store_at(rounded, i, count, value);
}

bfloat16* from(void* rounded, std::int64_t begin) {
  return rounded ? static_cast<bfloat16*>(rounded) + begin : nullptr;
}

// ---- AdamW --------------------------------------------------------------------------------

template <class T>
void adamw_run(const AdamWArgs& args, std::int64_t segment, std::int64_t begin, std::int64_t end) {
  using V = vector_t<T>;
  const auto factor = [](double value) { return splat(static_cast<T>(value)); };
  const double* const scalars = args.scalars + 4 * segment;
  const double lr = scalars[0], weight_decay = scalars[1];
  const V scale = factor(*args.grad_scale), decay = factor(1 - lr * weight_decay);
  const V one_minus_beta1 = factor(1 - args.beta1), beta2 = factor(args.beta2);
  const V one_minus_beta2 = factor(1 - args.beta2), eps = factor(args.eps);
  const V step = factor(-lr / scalars[2]);
  const V root = factor(1 / __builtin_sqrt(scalars[3]));
  auto* param = static_cast<T*>(args.param) + begin;
  bfloat16* const rounded = from(args.rounded, begin);
  auto* exp_avg = static_cast<T*>(args.exp_avg) + begin;
  auto* exp_avg_sq = static_cast<T*>(args.exp_avg_sq) + begin;
  const auto* grad = static_cast<const T*>(args.grad) + begin;
  for_vectors<T>(end - begin, [&](std::int64_t i, std::int64_t count) {
    const V g = load_at(grad, i, count) * scale;
    V m = load_at(exp_avg, i, count), v = load_at(exp_avg_sq, i, count);
    m = fma(one_minus_beta1, g - m, m);
    v = fma(one_minus_beta2 * g, g, beta2 * v);
    const V p = fma(step, m / fma(sqrt(v), root, eps), load_at(param, i, count) * decay);
    store_at(exp_avg, i, count, m);
    store_at(exp_avg_sq, i, count, v);
    store_param(param, rounded, i, count, p);
  });
}

void adamw(const AdamWArgs& args, Device device) {
  step(args, device, args.dtype == DType::f64 ? adamw_run<double> : adamw_run<float>);
}

// ---- SGD ----------------------------------------------------------------------------------

template <class T>
void sgd_run(const SGDArgs& args, std::int64_t segment, std::int64_t begin, std::int64_t end) {
  using V = vector_t<T>;
  const auto factor = [](double value) { return splat(static_cast<T>(value)); };
  const double* const scalars = args.scalars + 2 * segment;
  const V scale = factor(*args.grad_scale), decay = factor(scalars[1]);
  const V momentum = factor(args.momentum), lr = factor(-scalars[0]);
  auto* param = static_cast<T*>(args.param) + begin;
  bfloat16* const rounded = from(args.rounded, begin);
  auto* buffer = args.momentum_buffer ? static_cast<T*>(args.momentum_buffer) + begin : nullptr;
  const auto* grad = static_cast<const T*>(args.grad) + begin;
  for_vectors<T>(end - begin, [&](std::int64_t i, std::int64_t count) {
    const V p = load_at(param, i, count);
    V g = fma(decay, p, load_at(grad, i, count) * scale);
    if (buffer) {
      const V b = fma(momentum, load_at(buffer, i, count), g);
      store_at(buffer, i, count, b);
      g = args.nesterov ? fma(momentum, b, g) : b;
    }
    store_param(param, rounded, i, count, fma(lr, g, p));
  });
}

void sgd(const SGDArgs& args, Device device) {
  step(args, device, args.dtype == DType::f64 ? sgd_run<double> : sgd_run<float>);
}

// ---- norms --------------------------------------------------------------------------------

// 8 elements as doubles; zeros beyond `count`.
template <class T>
RINGLET_INLINE f64x8 wide(const T* from, std::int64_t count) {
  scalar_t<T> buffer[8] = {};
  for (std::int64_t i = 0; i < count; ++i) buffer[i] = static_cast<scalar_t<T>>(from[i]);
  f64x8 out;
  for (int i = 0; i < 8; ++i) out[i] = static_cast<double>(buffer[i]);
  return out;
}

// Four vectors of partial sums, folded in a fixed order; a short block is padded with zeros.
template <class T>
double squared_norm_block(const T* x, std::int64_t n) {
  f64x8 partial[4] = {};
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const f64x8 v = wide(x + i + 8 * k, 8);
      partial[k] = fma(v, v, partial[k]);
    }
    // Unrolled, so that the sums stay in registers in the loop above.
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k)
    if (const std::int64_t left = n - i - 8 * k; left > 0) {
      const f64x8 v = wide(x + i + 8 * k, left < 8 ? left : 8);
      partial[k] = fma(v, v, partial[k]);
    }
  return sum((partial[0] + partial[1]) + (partial[2] + partial[3]));
}

template <class T>
void squared_norm(const SquaredNormArgs& args, Device device) {
  const T* x = static_cast<const T*>(args.x);
  for_each(
      device, (args.n + kNormBlock - 1) / kNormBlock, kGrain / kNormBlock, [&](std::int64_t b) {
        const std::int64_t rest = args.n - b * kNormBlock;
        args.out[b] = squared_norm_block(x + b * kNormBlock, rest < kNormBlock ? rest : kNormBlock);
      });
}

void clip_factor(const ClipFactorArgs& args, Device) {
  double lanes[kClipLanes];
  for (int lane = 0; lane < kClipLanes; ++lane) lanes[lane] = clip_lane(args.blocks, args.n, lane);
  for (int half = kClipLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  write_clip(args.out, lanes[0], args.blocks, args.n, args.max_norm, args.check_finite);
}

}  // namespace

void register_optimizer() {
  adamw_kernel.set(DeviceType::cpu, adamw);
  sgd_kernel.set(DeviceType::cpu, sgd);
  RINGLET_SET_FLOATING(cpu, squared_norm);
  clip_factor_kernel.set(DeviceType::cpu, clip_factor);
}

}  // namespace ringlet::cpu::RINGLET_ISA
