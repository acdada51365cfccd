#include "ringlet/cuda/elementwise.h"

#include <utility>

#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/packs.h"
#include "ringlet/cuda/register.h"
#include "ringlet/cuda/strided.h"
#include "ringlet/cuda/words.h"

namespace ringlet::cuda {
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

template <UnaryOp op>
void run_unary(const UnaryArgs& args, Device device) {
  dispatch_floating("unary", args.dtype, [&]<class T>() {
    auto* out = static_cast<T*>(args.out);
    const auto* in = static_cast<const T*>(args.in);
    const std::int64_t packed = in_packs<T>(args.n, out, in);
    launch(name(op), device, unary_elements<op, T>, grid_of_packs<T>(args.n, packed), kThreads, 0,
           out, in, args.n, packed);
  });
}

template <int... kOps>
void unary_of(const UnaryArgs& args, Device device, std::integer_sequence<int, kOps...>) {
  constexpr void (*kRun[])(const UnaryArgs&, Device) = {run_unary<static_cast<UnaryOp>(kOps)>...};
  kRun[static_cast<int>(args.op)](args, device);
}

void unary(const UnaryArgs& args, Device device) {
  unary_of(args, device, std::make_integer_sequence<int, static_cast<int>(kLastUnaryOp) + 1>());
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

template <int... kOps>
void arithmetic_of(const BinaryArgs& args, Device device, std::integer_sequence<int, kOps...>) {
  constexpr void (*kRun[])(const BinaryArgs&,
                           Device) = {run_binary<static_cast<BinaryOp>(kOps)>...};
  kRun[static_cast<int>(args.op)](args, device);
}

void binary(const BinaryArgs& args, Device device) {
  if (args.op < kFirstComparison)
    return arithmetic_of(args, device,
                         std::make_integer_sequence<int, static_cast<int>(kFirstComparison)>());
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

void axpby(const AxpbyArgs& args, Device device) {
  dispatch_floating("axpby", args.dtype, [&]<class T>() {
    auto* out = static_cast<T*>(args.out);
    const auto* in = static_cast<const T*>(args.in);
    const std::int64_t packed = in_packs<T>(args.n, out, in);
    launch("axpby", device, axpby_elements<T>, grid_of_packs<T>(args.n, packed), kThreads, 0, out,
           in, args.n, packed, args.alpha, args.beta, args.beta != 0);
  });
}

}  // namespace

void register_elementwise() {
  unary_kernel.set(DeviceType::cuda, unary);
  binary_kernel.set(DeviceType::cuda, binary);
  where_kernel.set(DeviceType::cuda, where);
  axpby_kernel.set(DeviceType::cuda, axpby);
}

}  // namespace ringlet::cuda
