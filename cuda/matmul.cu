#include <memory>
#include <optional>

#include "ringlet/core/ops/matmul.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/gelu_backward.cuh"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/matmul_finish.cuh"
#include "ringlet/cuda/matmul_plan.h"
#include "ringlet/cuda/product_algorithm.h"
#include "ringlet/cuda/rounded.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

// Operands of a product in a form that the library can read.

/// Bytes from the first element of a batch of matrices to the last; `matrix` is the size of one.
inline std::size_t batch_bytes(std::int64_t stride, std::int64_t batch, std::int64_t matrix,
                               DType dtype) {
  return static_cast<std::size_t>((batch - 1) * stride + matrix) * itemsize(dtype);
}

inline bool overlap(const void* x, std::size_t x_bytes, const void* y, std::size_t y_bytes) {
  const auto* first = static_cast<const char*>(x);
  const auto* second = static_cast<const char*>(y);
  return first && second && first < second + y_bytes && second < first + x_bytes;
}

/// Identifies the order of this thread's work for the device: its stream and, during a capture, the
/// capture as well. A graph's replays see nothing that was made before its capture.
inline std::uint64_t work_order(Device device) {
  const cudaStream_t stream = current_stream(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long recording = 0;
  RINGLET_CUDA(cudaStreamGetCaptureInfo(stream, &status, &recording));
  const auto order = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(stream));
  // Addresses have 48 bits.
  return status == cudaStreamCaptureStatusNone ? order
                                               : order ^ (recording << 48 | recording >> 16);
}

/// Rounded numbers: the cached ones, or a copy.
class Rounded {
 public:
  Rounded(const ToRound& x, Device device) {
    if (x.of) kept_ = kept_rounded(x, device, work_order(device));
    if (kept_) return;
    copy_.emplace(device, static_cast<std::size_t>(x.n) * itemsize(x.to));
    cast_kernel({copy_->data(), x.data, x.n, x.to, x.dtype}, device);
  }
  const void* data() const { return kept_ ? kept_.get() : copy_->data(); }

 private:
  std::shared_ptr<const std::byte> kept_;
  std::optional<Workspace> copy_;
};

/// The operand itself, or a copy if it counts as rounded or if the product overwrites it.
class Operand {
 public:
  Operand(const MatmulArgs& args, Device device, const void* data, DType dtype, std::int64_t stride,
          std::int64_t matrix)
      : data_(data) {
    const std::size_t nbytes = batch_bytes(stride, args.batch, matrix, dtype);
    if (dtype != args.dtype) {
      Storage* const keeps = args.round_b ? args.round_b : args.keep_b;
      rounded_.emplace(
          ToRound{data, static_cast<std::int64_t>(nbytes / itemsize(dtype)), dtype, args.dtype,
                  data == args.b ? keeps : nullptr, args.round_b != nullptr},
          device);
      data_ = rounded_->data();
      return;
    }
    const std::size_t out =
        batch_bytes(args.m * args.n, args.batch, args.m * args.n, args.out_dtype);
    if (!overlap(data, nbytes, args.out, out) && !overlap(data, nbytes, args.pre_activation, out))
      return;
    copy_.emplace(device, nbytes);
    data_ = copy_->data();
    RINGLET_CUDA(cudaMemcpyAsync(copy_->data(), data, nbytes, cudaMemcpyDeviceToDevice,
                                 current_stream(device)));
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  std::optional<Rounded> rounded_;
  std::optional<Workspace> copy_;
};

namespace {

// ---- sums of rows -------------------------------------------------------------------------

// Columns, and rows of threads, of a block.
constexpr int kSumColumns = 32;
constexpr int kSumRows = 16;
// Rows that one block adds; longer columns are divided into such parts.
constexpr std::int64_t kPartRows = 256;

// out (gridDim.y, n) = the sums over `part` rows each of in (m, n). Each thread adds every
// sixteenth row; the sixteen sums are added in order.
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
  *to = beta != 0 ? ::fma(beta, *to, sum) : sum;
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
  // At most kMostParts parts, each of a multiple of kPartRows rows.
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

// ---- products -----------------------------------------------------------------------------

// Precision medium: f32 operands count as rounded to bf16.
MatmulArgs as_asked(MatmulArgs args) {
  const bool rounds = args.dtype == DType::f32 && matmul_precision() == MatmulPrecision::medium;
  if (rounds) args.dtype = DType::bf16;
  return args;
}

// False, with no product made, if the library has no algorithm for its part of the plan.
bool multiply(const MatmulArgs& args, Device device, const MatmulPlan& plan, const Operand& a,
              const Operand& b) {
  if (args.a_sums && !plan.makes_sums) sum_rows(a_sums_of(args), device);
  const Workspace scratch(
      device,
      plan.scratch ? batch_bytes(args.m * args.n, args.batch, args.m * args.n, plan.product) : 0);
  // GELU's operand is computed where it is stored.
  void* const product = plan.scratch          ? scratch.data()
                        : args.pre_activation ? args.pre_activation
                                              : args.out;
  const Workspace sums(device,
                       plan.adds_sums ? static_cast<std::size_t>(args.m) * sizeof(float) : 0);
  std::optional<Rounded> bias;  // the library adds it in the product's dtype
  if (plan.adds_bias && plan.product != DType::f32)
    bias.emplace(ToRound{args.bias, args.n, DType::f32, plan.product, args.round_bias, true},
                 device);
  const ProductPointers at{b.data(), a.data(),
                           bias             ? bias->data()
                           : plan.adds_bias ? args.bias
                                            : nullptr,
                           plan.adds_sums    ? sums.data()
                           : plan.makes_sums ? args.a_sums
                                             : nullptr,
                           product};
  if (!run_product(plan, at, device)) return false;
  if (plan.adds_sums)
    sum_rows({args.a_sums, sums.data(), 1, args.m, args.a_sums_beta, DType::f32}, device);
  if (plan.finish) finish(args, device, plan, product);
  return true;
}

void matmul(const MatmulArgs& given, Device device) {
  const MatmulArgs args = as_asked(given);
  if (args.k == 0) {
    if (args.a_sums) sum_rows(a_sums_of(args), device);
    return finish(args, device, plan_matmul(args, false), nullptr);
  }
  const Operand a(args, device, args.a, args.a_dtype, args.a_stride, args.m * args.k);
  const Operand b(args, device, args.b, args.b_dtype, args.b_stride, args.k * args.n);
  for (const bool epilogues : {true, false})
    if (multiply(args, device, plan_matmul(args, epilogues), a, b)) return;
}

// ---- gradients ----------------------------------------------------------------------------

template <class T>
void gelu_backward(const GeluBackwardArgs& args, Device device) {
  const bool packs = aligned16(args.out, args.grad, args.pre_activation);
  if (args.sums && packs && args.columns % kPack<T> == 0)
    return launch_gelu_backward_sums<T>(args, device);
  launch("gelu_backward", device, packs ? gelu_backward_packs<T> : gelu_backward_elements<T>,
         grid_for(args.n, packs ? kThreads * kPack<T> : kThreads), kThreads, 0,
         static_cast<T*>(args.out), static_cast<const T*>(args.grad),
         static_cast<const T*>(args.pre_activation), args.n);
  if (args.sums) sum_rows(sums_of(args), device);
}

}  // namespace

void register_matmul() {
  matmul_kernel.set(DeviceType::cuda, matmul);
  sum_rows_kernel.set(DeviceType::cuda, sum_rows);
  RINGLET_SET_FLOATING(cuda, gelu_backward);
}

}  // namespace ringlet::cuda
