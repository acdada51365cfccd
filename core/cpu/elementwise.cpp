#include "ringlet/core/ops/elementwise.h"

#include <type_traits>

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/simd_math.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {

namespace {

// ---- operands of different shapes, in runs of the innermost dimension -----------------------

// Calls row(out offset, operand offsets, length) for pieces of the innermost dimension.
template <int kOperands, class Row>
void for_rows(const BroadcastPlan& plan, Device device, Row row) {
  const int last = plan.dim - 1;
  const std::int64_t inner = plan.size[last];
  std::int64_t outer = 1;
  for (int i = 0; i < last; ++i) outer *= plan.size[i];
  auto run = [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
    std::int64_t offset[kOperands];
    for (int k = 0; k < kOperands; ++k) offset[k] = begin * plan.stride[k][last];
    std::int64_t rest = index;
    for (int i = last - 1; i >= 0; --i) {
      const std::int64_t at = rest % plan.size[i];
      rest /= plan.size[i];
      for (int k = 0; k < kOperands; ++k) offset[k] += at * plan.stride[k][i];
    }
    row(index * inner + begin, offset, end - begin);
  };
  if (outer == 1) {
    parallel_for(device, inner, kGrain,
                 [&](std::int64_t begin, std::int64_t end) { run(0, begin, end); });
  } else {
    for_each(device, outer, kGrain / inner + 1, [&](std::int64_t i) { run(i, 0, inner); });
  }
}

template <BinaryOp op, class V>
RINGLET_INLINE auto apply(V a, V b) {
  if constexpr (op == BinaryOp::add) return static_cast<V>(a + b);
  if constexpr (op == BinaryOp::sub) return static_cast<V>(a - b);
  if constexpr (op == BinaryOp::mul) return static_cast<V>(a * b);
  if constexpr (op == BinaryOp::div) return static_cast<V>(a / b);
  // A NaN in either operand wins, as in PyTorch.
  if constexpr (op == BinaryOp::maximum) return a != a ? a : (a < b ? b : (b != b ? b : a));
  if constexpr (op == BinaryOp::minimum) return a != a ? a : (b < a ? b : (b != b ? b : a));
  if constexpr (op == BinaryOp::eq) return a == b;
  if constexpr (op == BinaryOp::ne) return a != b;
  if constexpr (op == BinaryOp::lt) return a < b;
  if constexpr (op == BinaryOp::le) return a <= b;
  if constexpr (op == BinaryOp::gt) return a > b;
  if constexpr (op == BinaryOp::ge) return a >= b;
}

template <class T>
RINGLET_INLINE vector_t<T> load_operand(const T* from, std::int64_t stride, std::int64_t i,
                                        std::int64_t count) {
  return stride ? load_at(from, i, count) : splat(static_cast<scalar_t<T>>(*from));
}

template <BinaryOp op, class T>
void arithmetic(const BinaryArgs& args, Device device) {
  const int last = args.plan.dim - 1;
  for_rows<2>(args.plan, device, [&](std::int64_t at, const std::int64_t* offset, std::int64_t n) {
    const T* a = static_cast<const T*>(args.a) + offset[0];
    const T* b = static_cast<const T*>(args.b) + offset[1];
    T* out = static_cast<T*>(args.out) + at;
    for_vectors<T>(n, [&](std::int64_t i, std::int64_t count) {
      store_at(out, i, count,
               apply<op>(load_operand(a, args.plan.stride[0][last], i, count),
                         load_operand(b, args.plan.stride[1][last], i, count)));
    });
  });
}

// Integers, powers and comparisons are computed element by element.
template <class Out, class T, class Function>
void elementwise(const BinaryArgs& args, Device device, Function function) {
  const int last = args.plan.dim - 1;
  const std::int64_t sa = args.plan.stride[0][last], sb = args.plan.stride[1][last];
  for_rows<2>(args.plan, device, [&](std::int64_t at, const std::int64_t* offset, std::int64_t n) {
    const T* a = static_cast<const T*>(args.a) + offset[0];
    const T* b = static_cast<const T*>(args.b) + offset[1];
    Out* out = static_cast<Out*>(args.out) + at;
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(function(a[i * sa], b[i * sb]));
  });
}

template <BinaryOp op>
void run_binary(const BinaryArgs& args, Device device) {
  constexpr bool comparison = op >= BinaryOp::eq;
  if (is_floating(args.dtype)) {
    dispatch_floating("binary", args.dtype, [&]<class T>() {
      using S = scalar_t<T>;
      if constexpr (comparison) {
        elementwise<std::uint8_t, T>(
            args, device, [](T a, T b) { return apply<op>(static_cast<S>(a), static_cast<S>(b)); });
      } else if constexpr (op == BinaryOp::pow) {
        elementwise<T, T>(args, device, [](T a, T b) {
          return static_cast<S>(::pow(static_cast<S>(a), static_cast<S>(b)));
        });
      } else {
        arithmetic<op, T>(args, device);
      }
    });
  } else if constexpr (op == BinaryOp::div || op == BinaryOp::pow) {
    unsupported_dtype(op == BinaryOp::div ? "div" : "pow", args.dtype);
  } else {
    dispatch_integer("binary", args.dtype, [&]<class T>() {
      using Out = std::conditional_t<comparison, std::uint8_t, T>;
      elementwise<Out, T>(args, device, [](T a, T b) { return apply<op>(a, b); });
    });
  }
}

void binary(const BinaryArgs& args, Device device) {
  dispatch_value<kLastBinaryOp>(args.op, [&]<BinaryOp op>() { run_binary<op>(args, device); });
}

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
  if constexpr (op == UnaryOp::sin) return sin(x);
  if constexpr (op == UnaryOp::cos) return cos(x);
  if constexpr (op == UnaryOp::log1p) return log1p(x);
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
  RINGLET_SET_FLOATING(cpu, unary);
  binary_kernel.set(DeviceType::cpu, binary);
  where_kernel.set(DeviceType::cpu, where);
  RINGLET_SET_FLOATING(cpu, axpby);
}

}  // namespace ringlet::cpu::RINGLET_ISA
