#include "ringlet/core/ops/elementwise.h"

#include "ringlet/core/cpu/broadcast.h"
#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/elementwise_binary.h"
#include "ringlet/core/cpu/simd_math.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// ---- unary --------------------------------------------------------------------------------

template <UnaryOp op, class V>
RINGLET_INLINE V apply(V x) {
  if constexpr (op == UnaryOp::neg) return -x;
  if constexpr (op == UnaryOp::abs) return abs(x);
  if constexpr (op == UnaryOp::exp) return exp(x);
  if constexpr (op == UnaryOp::log) return log(x);
  if constexpr (op == UnaryOp::sqrt) return sqrt(x);
  if constexpr (op == UnaryOp::rsqrt) return 1 / sqrt(x);
  if constexpr (op == UnaryOp::tanh) return tanh(x);
  if constexpr (op == UnaryOp::sigmoid) return sigmoid(x);
  if constexpr (op == UnaryOp::relu) return x < V{} ? V{} : x;
  if constexpr (op == UnaryOp::gelu) return gelu(x);
  if constexpr (op == UnaryOp::gelu_derivative) return gelu_derivative(x);
  if constexpr (op == UnaryOp::sign) return x > V{} ? V{} + 1 : (x < V{} ? V{} - 1 : V{});
  if constexpr (op == UnaryOp::square) return x * x;
  if constexpr (op == UnaryOp::reciprocal) return 1 / x;
}

template <class T>
void unary(const UnaryArgs& args, Device device) {
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  dispatch_value<kLastUnaryOp>(args.op, [&]<UnaryOp op>() {
    for_vectors<T>(device, args.n, [=](std::int64_t i, std::int64_t count) {
      store_at(out, i, count, apply<op>(load_at(in, i, count)));
    });
  });
}

// ---- where --------------------------------------------------------------------------------

template <class T>
void run_where(const WhereArgs& args, Device device) {
  const int last = args.plan.dim - 1;
  const auto& stride = args.plan.stride;
  for_rows<3>(args.plan, device, [&](std::int64_t at, const std::int64_t* offset, std::int64_t n) {
    const std::uint8_t* condition = args.condition + offset[0];
    const T* a = static_cast<const T*>(args.a) + offset[1];
    const T* b = static_cast<const T*>(args.b) + offset[2];
    T* out = static_cast<T*>(args.out) + at;
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = condition[i * stride[0][last]] ? a[i * stride[1][last]] : b[i * stride[2][last]];
  });
}

void where(const WhereArgs& args, Device device) {
  dispatch_word(static_cast<std::int64_t>(itemsize(args.dtype)),
                [&]<class T>() { run_where<T>(args, device); });
}

// ---- alpha x + beta y ---------------------------------------------------------------------

template <class T>
void axpby(const AxpbyArgs& args, Device device) {
  const auto alpha = splat(static_cast<scalar_t<T>>(args.alpha));
  const auto beta = splat(static_cast<scalar_t<T>>(args.beta));
  const bool adds = args.beta != 0;
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  for_vectors<T>(device, args.n, [=](std::int64_t i, std::int64_t count) {
    const auto x = alpha * load_at(in, i, count);
    store_at(out, i, count, adds ? fma(beta, load_at(out, i, count), x) : x);
  });
}

}  // namespace

void register_elementwise() {
  RINGLET_SET_FLOATING(unary);
  binary_kernel.set(DeviceType::cpu, binary);
  where_kernel.set(DeviceType::cpu, where);
  RINGLET_SET_FLOATING(axpby);
}

}  // namespace ringlet::cpu::RINGLET_ISA
