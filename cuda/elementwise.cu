#include <type_traits>

#include "ringlet/core/device/dispatch.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/cuda/gelu.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/strided.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/words.h"

namespace ringlet::cuda {

// The element-wise functions of one number; S is f32, f64 or an integer.

/// 0 where an f32 would be denormal, as on the CPU.
template <class S>
RINGLET_HOST_DEVICE S exp_of(S x) {
  if constexpr (std::is_same_v<S, float>)
    if (x < -87.33654f) return 0;
  return ::exp(x);
}

template <UnaryOp op, class S>
RINGLET_HOST_DEVICE S apply(S x) {
  if constexpr (op == UnaryOp::neg) return -x;
  if constexpr (op == UnaryOp::abs) return ::fabs(x);
  if constexpr (op == UnaryOp::exp) return exp_of(x);
  if constexpr (op == UnaryOp::log) return ::log(x);
  if constexpr (op == UnaryOp::sqrt) return ::sqrt(x);
  if constexpr (op == UnaryOp::rsqrt) return S{1} / ::sqrt(x);
  if constexpr (op == UnaryOp::tanh) return ::tanh(x);
  if constexpr (op == UnaryOp::sigmoid) return S{1} / (S{1} + ::exp(-x));
  if constexpr (op == UnaryOp::relu) return x < S{0} ? S{0} : x;
  if constexpr (op == UnaryOp::gelu) return gelu(x);
  if constexpr (op == UnaryOp::gelu_derivative) return gelu_derivative(x);
  if constexpr (op == UnaryOp::sign) return x > S{0} ? S{1} : (x < S{0} ? S{-1} : S{0});
  if constexpr (op == UnaryOp::square) return x * x;
  if constexpr (op == UnaryOp::reciprocal) return S{1} / x;
  if constexpr (op == UnaryOp::sin) return ::sin(x);
  if constexpr (op == UnaryOp::cos) return ::cos(x);
  if constexpr (op == UnaryOp::log1p) return ::log1p(x);
}

/// Arithmetic. Integers wrap around.
template <BinaryOp op, class S>
RINGLET_HOST_DEVICE S apply(S a, S b) {
  if constexpr (std::is_integral_v<S> && op <= BinaryOp::mul) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    return static_cast<S>(op == BinaryOp::add ? x + y : op == BinaryOp::sub ? x - y : x * y);
  } else {
    if constexpr (op == BinaryOp::add) return a + b;
    if constexpr (op == BinaryOp::sub) return a - b;
    if constexpr (op == BinaryOp::mul) return a * b;
    if constexpr (op == BinaryOp::div) return a / b;
    // In f64, because the device's powf is accurate to 4 ulp only.
    if constexpr (op == BinaryOp::pow)
      return static_cast<S>(::pow(static_cast<double>(a), static_cast<double>(b)));
    // A NaN in either operand wins, as in PyTorch.
    if constexpr (op == BinaryOp::maximum) return a != a ? a : (a < b ? b : (b != b ? b : a));
    if constexpr (op == BinaryOp::minimum) return a != a ? a : (b < a ? b : (b != b ? b : a));
  }
}

/// A comparison as the set of outcomes for which it holds, so that one kernel serves all of them.
enum Outcome : unsigned { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

inline unsigned outcomes(BinaryOp op) {
  switch (op) {
    case BinaryOp::eq:
      return kEqual;
    case BinaryOp::ne:
      return kLess | kGreater | kUnordered;
    case BinaryOp::lt:
      return kLess;
    case BinaryOp::le:
      return kLess | kEqual;
    case BinaryOp::gt:
      return kGreater;
    case BinaryOp::ge:
      return kGreater | kEqual;
    default:
      return 0;
  }
}

template <class S>
RINGLET_HOST_DEVICE unsigned outcome(S a, S b) {
  return a < b ? kLess : a == b ? kEqual : a > b ? kGreater : kUnordered;
}

namespace {

// ---- all operands have the output's shape, or one is a scalar -----------------------------

template <UnaryOp op, class T>
__global__ void unary_elements(T* out, const T* in, std::int64_t n, std::int64_t packed) {
  grid_stride(packed / kPack<T>, [&](std::int64_t i) {
    compute_t<T> x[kPack<T>];
    load_pack(in + i * kPack<T>, x);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) x[k] = apply<op>(x[k]);
    store_pack(out + i * kPack<T>, x);
  });
  grid_stride(n - packed, [&](std::int64_t i) {
    out[packed + i] = from_compute<T>(apply<op>(to_compute(in[packed + i])));
  });
}

// An operand with stride 0 is a scalar.
template <BinaryOp op, class T>
__global__ void binary_elements(T* out, const T* a, const T* b, std::int64_t n, std::int64_t packed,
                                bool one_a, bool one_b) {
  using S = compute_t<T>;
  const S first_a = to_compute(a[0]), first_b = to_compute(b[0]);
  grid_stride(packed / kPack<T>, [&](std::int64_t i) {
    S x[kPack<T>], y[kPack<T>];
    if (!one_a) load_pack(a + i * kPack<T>, x);
    if (!one_b) load_pack(b + i * kPack<T>, y);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k)
      x[k] = apply<op>(one_a ? first_a : x[k], one_b ? first_b : y[k]);
    store_pack(out + i * kPack<T>, x);
  });
  grid_stride(n - packed, [&](std::int64_t i) {
    const std::int64_t at = packed + i;
    out[at] = from_compute<T>(
        apply<op>(one_a ? first_a : to_compute(a[at]), one_b ? first_b : to_compute(b[at])));
  });
}

template <class T>
__global__ void axpby_elements(T* out, const T* in, std::int64_t n, std::int64_t packed,
                               compute_t<T> alpha, compute_t<T> beta, bool reads_out) {
  using S = compute_t<T>;
  grid_stride(packed / kPack<T>, [&](std::int64_t i) {
    S x[kPack<T>], y[kPack<T>];
    load_pack(in + i * kPack<T>, x);
    if (reads_out) load_pack(out + i * kPack<T>, y);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k)
      x[k] = reads_out ? ::fma(beta, y[k], alpha * x[k]) : alpha * x[k];
    store_pack(out + i * kPack<T>, x);
  });
  grid_stride(n - packed, [&](std::int64_t i) {
    const S x = alpha * to_compute(in[packed + i]);
    out[packed + i] = from_compute<T>(reads_out ? ::fma(beta, to_compute(out[packed + i]), x) : x);
  });
}

// ---- broadcast: element by element --------------------------------------------------------

template <BinaryOp op, class T>
__global__ void binary_broadcast(T* out, const T* a, const T* b, Strided<2> places) {
  grid_stride(places.numel, [&](std::int64_t i) {
    std::int64_t at[2];
    places.offsets(i, at);
    out[i] = from_compute<T>(apply<op>(to_compute(a[at[0]]), to_compute(b[at[1]])));
  });
}

template <class T>
__global__ void compare_broadcast(std::uint8_t* out, const T* a, const T* b, Strided<2> places,
                                  unsigned wanted) {
  grid_stride(places.numel, [&](std::int64_t i) {
    std::int64_t at[2];
    places.offsets(i, at);
    out[i] = (outcome(to_compute(a[at[0]]), to_compute(b[at[1]])) & wanted) != 0;
  });
}

template <class T>
__global__ void where_broadcast(T* out, const std::uint8_t* condition, const T* a, const T* b,
                                Strided<3> places) {
  grid_stride(places.numel, [&](std::int64_t i) {
    std::int64_t at[3];
    places.offsets(i, at);
    out[i] = condition[at[0]] ? a[at[1]] : b[at[2]];
  });
}

// ---- launchers ----------------------------------------------------------------------------

template <class T>
void unary(const UnaryArgs& args, Device device) {
  auto* out = static_cast<T*>(args.out);
  const auto* in = static_cast<const T*>(args.in);
  const std::int64_t packed = in_packs<T>(args.n, out, in);
  dispatch_value<kLastUnaryOp>(args.op, [&]<UnaryOp op>() {
    launch(name(op), device, unary_elements<op, T>, grid_of_packs<T>(args.n, packed), kThreads, 0,
           out, in, args.n, packed);
  });
}

template <BinaryOp op, class T>
void run_arithmetic(const BinaryArgs& args, Device device) {
  auto* out = static_cast<T*>(args.out);
  const auto* a = static_cast<const T*>(args.a);
  const auto* b = static_cast<const T*>(args.b);
  const auto places = strided<2>(args.plan);
  const std::int64_t n = places.numel;
  if (places.dim > 1)
    return launch(name(op), device, binary_broadcast<op, T>, grid_for(n), kThreads, 0, out, a, b,
                  places);
  const bool one_a = args.plan.stride[0][0] == 0, one_b = args.plan.stride[1][0] == 0;
  const std::int64_t packed = in_packs<T>(n, out, one_a ? nullptr : a, one_b ? nullptr : b);
  launch(name(op), device, binary_elements<op, T>, grid_of_packs<T>(n, packed), kThreads, 0, out, a,
         b, n, packed, one_a, one_b);
}

template <BinaryOp op>
void run_binary(const BinaryArgs& args, Device device) {
  const auto typed = [&]<class T>() { run_arithmetic<op, T>(args, device); };
  if constexpr (op != BinaryOp::div && op != BinaryOp::pow)
    if (!is_floating(args.dtype)) return dispatch_integer("binary", args.dtype, typed);
  dispatch_floating(name(op), args.dtype, typed);
}

void binary(const BinaryArgs& args, Device device) {
  if (args.op < kFirstComparison)
    return dispatch_value<BinaryOp::minimum>(args.op,
                                             [&]<BinaryOp op>() { run_binary<op>(args, device); });
  const auto typed = [&]<class T>() {
    const auto places = strided<2>(args.plan);
    launch(name(args.op), device, compare_broadcast<T>, grid_for(places.numel), kThreads, 0,
           static_cast<std::uint8_t*>(args.out), static_cast<const T*>(args.a),
           static_cast<const T*>(args.b), places, outcomes(args.op));
  };
  if (is_floating(args.dtype)) return dispatch_floating("binary", args.dtype, typed);
  dispatch_integer("binary", args.dtype, typed);
}

void where(const WhereArgs& args, Device device) {
  dispatch_word(itemsize(args.dtype), [&]<class T>() {
    const auto places = strided<3>(args.plan);
    launch("where", device, where_broadcast<T>, grid_for(places.numel), kThreads, 0,
           static_cast<T*>(args.out), args.condition, static_cast<const T*>(args.a),
           static_cast<const T*>(args.b), places);
  });
}

template <class T>
void axpby(const AxpbyArgs& args, Device device) {
  auto* out = static_cast<T*>(args.out);
  const auto* in = static_cast<const T*>(args.in);
  const std::int64_t packed = in_packs<T>(args.n, out, in);
  launch("axpby", device, axpby_elements<T>, grid_of_packs<T>(args.n, packed), kThreads, 0, out, in,
         args.n, packed, args.alpha, args.beta, args.beta != 0);
}

}  // namespace

void register_elementwise() {
  RINGLET_SET_FLOATING(cuda, unary);
  binary_kernel.set(DeviceType::cuda, binary);
  where_kernel.set(DeviceType::cuda, where);
  RINGLET_SET_FLOATING(cuda, axpby);
}

}  // namespace ringlet::cuda
