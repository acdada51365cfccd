#include "ringlet/core/ops/matmul.h"

#include "ringlet/core/cpu/gemm_product.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/simd_math.h"
#include "ringlet/core/cpu/sum_rows.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr std::int64_t kWholeMatrices = 1 << 24;  // multiply-adds above which a matrix is split
// With more rows, packing B is too small a part of a product to spend memory on.
constexpr std::int64_t kFewRows = 512;

// ---- products -----------------------------------------------------------------------------

// Adds the bias and applies GELU while the block is in cache.
template <class T, class Out>
void finish_layer(const void* context, const GemmBlock<T>& block) {
  const auto& args = *static_cast<const MatmulArgs*>(context);
  const T* bias = args.bias ? static_cast<const T*>(args.bias) + block.column : nullptr;
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const T* from = block.data + i * block.ld;
    const std::int64_t at = (block.row + i) * args.n + block.column;
    Out* out = static_cast<Out*>(args.out) + at;
    Out* pre = args.pre_activation ? static_cast<Out*>(args.pre_activation) + at : nullptr;
    for_vectors<Out>(block.columns, [&](std::int64_t j, std::int64_t count) {
      auto value = load_at(from, j, count);
      if (bias) value += load_at(bias, j, count);
      if (pre) {
        // GELU reads the stored, rounded value, as two separate ops would.
        store_at(pre, j, count, value);
        value = gelu(load_at(pre, j, count));
      }
      store_at(out, j, count, value);
    });
  }
}

bool overlap(const void* x, std::int64_t x_bytes, const void* y, std::int64_t y_bytes) {
  const auto* first = static_cast<const char*>(x);
  const auto* second = static_cast<const char*>(y);
  return first && second && first < second + y_bytes && second < first + x_bytes;
}

// A product may write to memory that it reads as A.
bool writes_to_a(const MatmulArgs& args) {
  const std::int64_t last = args.batch - 1, products = args.batch * args.m * args.n;
  const std::int64_t a =
      (last * args.a_stride + args.m * args.k) * static_cast<std::int64_t>(itemsize(args.a_dtype));
  const std::int64_t out = products * static_cast<std::int64_t>(itemsize(args.out_dtype));
  return overlap(args.a, a, args.out, out) || overlap(args.a, a, args.pre_activation, out);
}

void multiply(const MatmulArgs& args, Device device, std::int64_t batch) {
  const auto at = [&](const void* matrices, std::int64_t stride, DType dtype) {
    return static_cast<const char*>(matrices) +
           batch * stride * static_cast<std::int64_t>(itemsize(dtype));
  };
  const GemmOperand a{at(args.a, args.a_stride, args.a_dtype),
                      args.a_dtype,
                      args.trans_a ? args.m : args.k,
                      args.trans_a,
                      args.a_dtype != args.dtype,
                      writes_to_a(args)};
  const GemmOperand b{at(args.b, args.b_stride, args.b_dtype),
                      args.b_dtype,
                      args.trans_b ? args.k : args.n,
                      args.trans_b,
                      args.b_dtype != args.dtype,
                      false,  // B is packed before anything is written
                      args.m <= kFewRows ? args.keep_b : nullptr};
  const std::int64_t m = args.m, n = args.n, k = args.k;
  if (!args.bias && !args.pre_activation) {
    char* out = static_cast<char*>(args.out) +
                batch * m * n * static_cast<std::int64_t>(itemsize(args.out_dtype));
    gemm(device, m, n, k, a, b, args.beta, out, args.out_dtype, n);
  } else if (args.out_dtype == DType::f64) {
    gemm(device, GemmProduct<double>{m, n, k, a, b, {finish_layer<double, double>, &args}});
  } else {
    const auto finish =
        args.out_dtype == DType::bf16 ? finish_layer<float, bfloat16> : finish_layer<float, float>;
    gemm(device, GemmProduct<float>{m, n, k, a, b, {finish, &args}});
  }
}

// ---- sums, products and gradients ---------------------------------------------------------

void matmul(const MatmulArgs& args, Device device) {
  if (args.a_sums)
    dispatch_floating("sum_rows", args.a_dtype,
                      [&]<class T>() { sum_rows<T>(a_sums_of(args), device); });
  const std::int64_t products = args.m * args.n * args.k;
  const std::int64_t grain =
      products > kWholeMatrices ? args.batch : (1 << 16) / (products + 1) + 1;
  parallel_for(device, args.batch, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) multiply(args, device, i);
  });
}

template <class T>
void gelu_backward(const GeluBackwardArgs& args, Device device) {
  const T* grad = static_cast<const T*>(args.grad);
  const T* pre = static_cast<const T*>(args.pre_activation);
  T* out = static_cast<T*>(args.out);
  for_vectors<T>(device, args.n, [=](std::int64_t i, std::int64_t count) {
    store_at(out, i, count, load_at(grad, i, count) * gelu_derivative(load_at(pre, i, count)));
  });
  if (args.sums) sum_rows<T>(sums_of(args), device);
}

}  // namespace

void register_matmul() {
  matmul_kernel.set(DeviceType::cpu, matmul);
  RINGLET_SET_FLOATING(cpu, sum_rows);
  RINGLET_SET_FLOATING(cpu, gelu_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
