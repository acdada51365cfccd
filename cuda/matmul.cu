#include "ringlet/core/ops/matmul.h"

#include <optional>

#include "ringlet/core/ops/accumulator.h"
#include "ringlet/core/ops/fill.h"
#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/gelu.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/matmul_plan.h"
#include "ringlet/cuda/product.h"
#include "ringlet/cuda/register.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

// ---- bias and GELU behind a product -------------------------------------------------------

constexpr int kFinishColumns = 128;  // a block's, times the elements of a pack
constexpr unsigned kMostGridRows = 1024;

struct DeviceOps {
  template <class T>
  __device__ __forceinline__ compute_t<T> to(T value) const {
    return to_compute(value);
  }
  template <class T>
  __device__ __forceinline__ T from(compute_t<T> value) const {
    return from_compute<T>(value);
  }
  __device__ __forceinline__ float fma(float a, float b, float c) const { return ::fmaf(a, b, c); }
  __device__ __forceinline__ double fma(double a, double b, double c) const {
    return ::fma(a, b, c);
  }
  template <class S>
  __device__ __forceinline__ S gelu(S x) const {
    return cuda::gelu(x);
  }
};

template <class S, class Sum, class Out>
__global__ void finish_elements(FinishArgs<S, Sum, Out> args, std::int64_t m) {
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= args.n) return;
  for (std::int64_t row = blockIdx.y; row < m; row += gridDim.y)
    finish_element(args, row, column, DeviceOps{});
}

// finish_element for eight columns at once: rows and pointers are multiples of 16 bytes.
template <class S, class Sum, class Out>
__global__ void finish_packs(FinishArgs<S, Sum, Out> args, std::int64_t m) {
  constexpr int kRun = 8;
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kRun;
  if (column >= args.n) return;
  S bias[kRun] = {};
  if (args.bias) load_run(args.bias + column, bias);
  for (std::int64_t row = blockIdx.y; row < m; row += gridDim.y) {
    const std::int64_t i = row * args.n + column;
    S value[kRun] = {};
    if (args.product) load_run(args.product + i, value);
    if (args.beta != 0) {
      S before[kRun];
      load_run(args.out + i, before);
#pragma unroll
      for (int j = 0; j < kRun; ++j) value[j] = DeviceOps{}.fma(args.beta, before[j], value[j]);
    }
    if (args.bias) {
#pragma unroll
      for (int j = 0; j < kRun; ++j) value[j] += bias[j];
    }
    if (args.pre) {
#pragma unroll
      for (int j = 0; j < kRun; ++j) value[j] = to_compute(from_compute<Out>(value[j]));
      store_run(args.pre + i, value);
#pragma unroll
      for (int j = 0; j < kRun; ++j) value[j] = gelu(value[j]);
    }
    store_run(args.out + i, value);
  }
}

template <class S, class Sum, class Out>
void finish(Device device, const FinishArgs<S, Sum, Out>& args, std::int64_t m) {
  const auto rows = static_cast<unsigned>(m < kMostGridRows ? m : kMostGridRows);
  const bool packs = args.n % 8 == 0 && aligned16(args.product, args.bias, args.pre, args.out);
  const std::int64_t width = packs ? args.n / 8 : args.n;
  const dim3 grid(static_cast<unsigned>((width + kFinishColumns - 1) / kFinishColumns), rows);
  launch("finish_product", device, packs ? finish_packs<S, Sum, Out> : finish_elements<S, Sum, Out>,
         grid, kFinishColumns, 0, args, m);
}

template <class S, class Sum, class Out>
void finish(const MatmulArgs& args, Device device, const MatmulPlan& plan, const void* product) {
  const bool at_end = plan.scratch || !product;  // beta was not the library's
  finish<S, Sum, Out>(device,
                      {static_cast<const Sum*>(product),
                       plan.adds_bias && product ? nullptr : static_cast<const S*>(args.bias),
                       static_cast<Out*>(args.pre_activation), static_cast<Out*>(args.out), args.n,
                       at_end ? static_cast<S>(args.beta) : S{0}},
                      args.batch * args.m);
}

void finish(const MatmulArgs& args, Device device, const MatmulPlan& plan, const void* product) {
  if (args.out_dtype == DType::f64)
    return finish<double, double, double>(args, device, plan, product);
  if (args.out_dtype == DType::f32) return finish<float, float, float>(args, device, plan, product);
  if (plan.product == DType::f32)
    return finish<float, float, bfloat16>(args, device, plan, product);
  finish<float, bfloat16, bfloat16>(args, device, plan, product);
}

// ---- products -----------------------------------------------------------------------------

std::size_t bytes(std::int64_t stride, std::int64_t batch, std::int64_t matrix, DType dtype) {
  return static_cast<std::size_t>((batch - 1) * stride + matrix) * itemsize(dtype);
}

bool overlap(const void* x, std::size_t x_bytes, const void* y, std::size_t y_bytes) {
  const auto* first = static_cast<const char*>(x);
  const auto* second = static_cast<const char*>(y);
  return first && second && first < second + y_bytes && second < first + x_bytes;
}

// An operand as the library can read it: itself, or a copy of it where it counts as rounded or
// where the product writes over it.
class Operand {
 public:
  Operand(const MatmulArgs& args, Device device, const void* data, DType dtype, std::int64_t stride,
          std::int64_t matrix)
      : data_(data) {
    const std::size_t nbytes = bytes(stride, args.batch, matrix, dtype);
    const std::size_t out = bytes(args.m * args.n, args.batch, args.m * args.n, args.out_dtype);
    const bool rounded = dtype != args.dtype;
    if (!rounded && !overlap(data, nbytes, args.out, out) &&
        !overlap(data, nbytes, args.pre_activation, out))
      return;
    const auto elements = static_cast<std::int64_t>(nbytes / itemsize(dtype));
    copy_.emplace(device, static_cast<std::size_t>(elements) * itemsize(args.dtype));
    data_ = copy_->data();
    if (rounded)
      cast_kernel({copy_->data(), data, elements, args.dtype, dtype}, device);
    else
      RINGLET_CUDA(cudaMemcpyAsync(copy_->data(), data, nbytes, cudaMemcpyDeviceToDevice,
                                   current_stream(device)));
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  std::optional<Workspace> copy_;
};

void matmul(const MatmulArgs& args, Device device) {
  MatmulPlan plan = plan_matmul(args, true);
  if (args.k == 0) return finish(args, device, plan, nullptr);
  const Operand a(args, device, args.a, args.a_dtype, args.a_stride, args.m * args.k);
  const Operand b(args, device, args.b, args.b_dtype, args.b_stride, args.k * args.n);
  const Workspace scratch(
      device, plan.scratch ? bytes(args.m * args.n, args.batch, args.m * args.n, plan.product) : 0);
  // GELU's operand is made where it stays.
  void* const product = plan.scratch          ? scratch.data()
                        : args.pre_activation ? args.pre_activation
                                              : args.out;
  ProductPointers at{b.data(), a.data(), plan.adds_bias ? args.bias : nullptr, product};
  if (!run_product(plan, at, device)) {
    plan = plan_matmul(args, false);
    at.bias = nullptr;
    run_product(plan, at, device);
  }
  if (plan.finish) finish(args, device, plan, product);
}

// ---- gradients ----------------------------------------------------------------------------

// A block's columns and rows of threads.
constexpr int kSumColumns = 32;
constexpr int kSumRows = 16;
// Rows that one block adds; sums of longer columns are made of such parts.
constexpr std::int64_t kPartRows = 256;

// out (gridDim.y, n) = the sums of `part` rows each of in (m, n): every thread adds each sixteenth
// row, the sixteen sums are added in order.
template <class T, class S>
__global__ void sum_parts(S* out, const T* in, std::int64_t m, std::int64_t n, std::int64_t part,
                          S beta) {
  __shared__ S sums[kSumRows][kSumColumns];
  const std::int64_t column = std::int64_t{blockIdx.x} * kSumColumns + threadIdx.x;
  const std::int64_t begin = blockIdx.y * part;
  const std::int64_t end = begin + part < m ? begin + part : m;
  S sum{0};
  if (column < n)
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kSumRows)
      sum += to_compute(in[row * n + column]);
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  for (int i = 1; i < kSumRows; ++i) sum += sums[i][threadIdx.x];
  S* const to = out + blockIdx.y * n + column;
  *to = beta != 0 ? DeviceOps{}.fma(beta, *to, sum) : sum;
}

template <class T, class S>
void sum_columns(Device device, S* out, const T* in, std::int64_t m, std::int64_t n, S beta) {
  const auto columns = static_cast<unsigned>((n + kSumColumns - 1) / kSumColumns);
  const dim3 block(kSumColumns, kSumRows);
  if (m <= kPartRows) {
    launch("sum_rows", device, sum_parts<T, S>, dim3(columns, 1), block, 0, out, in, m, n,
           kPartRows, beta);
    return;
  }
  // As many parts as fit the grid, of whole kPartRows.
  constexpr std::int64_t kMostParts = 1024;
  const std::int64_t runs = (m + kPartRows - 1) / kPartRows;
  const std::int64_t part = (runs + kMostParts - 1) / kMostParts * kPartRows;
  const std::int64_t parts = (m + part - 1) / part;
  const Workspace sums(device, static_cast<std::size_t>(parts * n) * sizeof(S));
  launch("sum_rows", device, sum_parts<T, S>, dim3(columns, static_cast<unsigned>(parts)), block, 0,
         sums.as<S>(), in, m, n, part, S{0});
  launch("sum_rows", device, sum_parts<S, S>, dim3(columns, 1), block, 0, out,
         static_cast<const S*>(sums.as<S>()), parts, n, parts, beta);
}

void sum_rows(const SumRowsArgs& args, Device device) {
  dispatch_floating("sum_rows", args.dtype, [&]<class T>() {
    using S = compute_t<T>;
    sum_columns(device, static_cast<S*>(args.out), static_cast<const T*>(args.in), args.m, args.n,
                static_cast<S>(args.beta));
  });
}

template <class T>
__global__ void gelu_backward_elements(T* out, const T* grad, const T* pre, std::int64_t n) {
  grid_stride(n, [&](std::int64_t i) {
    out[i] = from_compute<T>(to_compute(grad[i]) * gelu_derivative(to_compute(pre[i])));
  });
}

// The first n % kPack threads do what no pack holds.
template <class T>
__global__ void gelu_backward_packs(T* out, const T* grad, const T* pre, std::int64_t n) {
  grid_stride(n / kPack<T>, [&](std::int64_t i) {
    compute_t<T> slope[kPack<T>], x[kPack<T>];
    load_pack(grad + i * kPack<T>, slope);
    load_pack(pre + i * kPack<T>, x);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) slope[j] *= gelu_derivative(x[j]);
    store_pack(out + i * kPack<T>, slope);
  });
  const std::int64_t tail = n - n % kPack<T> + std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (tail < n)
    out[tail] = from_compute<T>(to_compute(grad[tail]) * gelu_derivative(to_compute(pre[tail])));
}

void gelu_backward(const GeluBackwardArgs& args, Device device) {
  dispatch_floating("gelu_backward", args.dtype, [&]<class T>() {
    T* out = static_cast<T*>(args.out);
    const T* grad = static_cast<const T*>(args.grad);
    const T* pre = static_cast<const T*>(args.pre_activation);
    const bool packs = aligned16(out, grad, pre);
    launch("gelu_backward", device, packs ? gelu_backward_packs<T> : gelu_backward_elements<T>,
           grid_for(args.n, packs ? kThreads * kPack<T> : kThreads), kThreads, 0, out, grad, pre,
           args.n);
  });
}

}  // namespace

void register_matmul() {
  matmul_kernel.set(DeviceType::cuda, matmul);
  sum_rows_kernel.set(DeviceType::cuda, sum_rows);
  gelu_backward_kernel.set(DeviceType::cuda, gelu_backward);
}

}  // namespace ringlet::cuda
