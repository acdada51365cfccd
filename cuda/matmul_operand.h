// An operand of a product as the library can read it.
#pragma once

#include <memory>
#include <optional>

#include "ringlet/core/ops/fill.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/storage.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

/// From the first element of a batch of matrices to the last; `matrix` is the size of one.
inline std::size_t batch_bytes(std::int64_t stride, std::int64_t batch, std::int64_t matrix,
                               DType dtype) {
  return static_cast<std::size_t>((batch - 1) * stride + matrix) * itemsize(dtype);
}

inline bool overlap(const void* x, std::size_t x_bytes, const void* y, std::size_t y_bytes) {
  const auto* first = static_cast<const char*>(x);
  const auto* second = static_cast<const char*>(y);
  return first && second && first < second + y_bytes && second < first + x_bytes;
}

/// Names the sidecar that holds a weight rounded to the operands' dtype; cast_kernel makes it.
inline void rounded_form(const void*, void*) {}

/// The order of this thread's work for the device: its stream's and, while that is recorded, the
/// recording's own, whose replays find nothing that was made before it.
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

/// The rounded weight, where it is kept beside its storage; not where memory is limited. A
/// parameter's is made at its first use, as its gradients will want it, too.
inline std::shared_ptr<Storage> kept_rounded(const MatmulArgs& args, Device device,
                                             const void* data, DType dtype, std::int64_t elements) {
  Storage* const weight = args.round_b ? args.round_b : args.keep_b;
  if (!weight || memory_stats(device).limit > 0) return nullptr;
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(data) - weight->data());
  const SidecarForm form{rounded_form, elements, 1, args.dtype, false, work_order(device)};
  const auto make = [&] {
    const auto nbytes = static_cast<std::size_t>(elements) * itemsize(args.dtype);
    auto rounded = std::make_shared<Storage>(nbytes, device);
    cast_kernel({rounded->data(), data, elements, args.dtype, dtype}, device);
    return rounded;
  };
  return weight->sidecar(offset, form, make, args.round_b != nullptr);
}

/// The operand itself, or a copy of it where it counts as rounded or where the product writes over
/// it.
class Operand {
 public:
  Operand(const MatmulArgs& args, Device device, const void* data, DType dtype, std::int64_t stride,
          std::int64_t matrix)
      : data_(data) {
    const std::size_t nbytes = batch_bytes(stride, args.batch, matrix, dtype);
    const std::size_t out =
        batch_bytes(args.m * args.n, args.batch, args.m * args.n, args.out_dtype);
    const bool rounded = dtype != args.dtype;
    if (!rounded && !overlap(data, nbytes, args.out, out) &&
        !overlap(data, nbytes, args.pre_activation, out))
      return;
    const auto elements = static_cast<std::int64_t>(nbytes / itemsize(dtype));
    if (rounded && data == args.b) kept_ = kept_rounded(args, device, data, dtype, elements);
    if (kept_) {
      data_ = kept_->data();
      return;
    }
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
  std::shared_ptr<Storage> kept_;
  std::optional<Workspace> copy_;
};

}  // namespace ringlet::cuda
