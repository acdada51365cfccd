// Operands of a product in a form that the library can read.
#pragma once

#include <memory>
#include <optional>

#include "ringlet/core/ops/matmul.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/matmul_plan.h"
#include "ringlet/cuda/rounded.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

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

/// The bias in the product's dtype, as the library adds it; null if the library does not add it.
class BiasOperand {
 public:
  BiasOperand(const MatmulArgs& args, Device device, const MatmulPlan& plan)
      : data_(plan.adds_bias ? args.bias : nullptr) {
    if (!data_ || plan.product == DType::f32) return;
    rounded_.emplace(ToRound{args.bias, args.n, DType::f32, plan.product, args.round_bias, true},
                     device);
    data_ = rounded_->data();
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  std::optional<Rounded> rounded_;
};

}  // namespace ringlet::cuda
