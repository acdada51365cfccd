#include <optional>
#include <vector>

#include "ringlet/core/error.h"
#include "ringlet/cuda/cancelling.h"
#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/product_algorithm.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {
namespace {

constexpr int kTimedRuns = 5;
// Shorter sums may have the same bits by chance.
constexpr std::int64_t kLeastTimedSum = 64;

// Fills with numbers of both signs and sixteen magnitudes that use all bits of the mantissa and
// cancel.
template <class T>
__global__ void fill_cancelling(T* out, ColumnMajor matrix, bool along_columns, bool negated,
                                std::int64_t n) {
  grid_stride(n, [&](std::int64_t i) {
    const Cancelling element = cancelling(matrix, along_columns, negated, i);
    auto word = static_cast<std::uint32_t>(element.like) * 2654435761u;
    word = (word ^ (word >> 15)) * 2246822519u;
    word ^= word >> 13;
    const std::uint32_t exponent = 112 + (word >> 23 & 15);
    const float value = __uint_as_float((word & 0x80000000u) | exponent << 23 | (word & 0x7fffffu));
    const compute_t<T> third = static_cast<compute_t<T>>(value) / 3;  // all of f64's bits, too
    out[i] = from_compute<T>(third * static_cast<compute_t<T>>(element.sign));
  });
}

__global__ void find_difference(const std::uint16_t* a, const std::uint16_t* b, std::int64_t n,
                                int* different) {
  grid_stride(n, [&](std::int64_t i) {
    if (a[i] != b[i]) atomicExch(different, 1);  // any number of threads may write it
  });
}

// ---- launchers ----------------------------------------------------------------------------

// Not from the caching allocator, so that its statistics count programs' memory only.
class Bytes {
 public:
  Bytes(Device device, std::size_t nbytes) {
    const DeviceGuard guard(device);
    if (cudaMalloc(&data_, nbytes) != cudaSuccess) data_ = nullptr;
    static_cast<void>(cudaGetLastError());
  }
  ~Bytes() { cudaFree(data_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

std::int64_t elements(const ColumnMajor& matrix, std::int64_t batch) {
  return (batch - 1) * matrix.stride + matrix.ld * matrix.columns;
}
std::size_t bytes(const ColumnMajor& matrix, std::int64_t batch, DType dtype) {
  return static_cast<std::size_t>(elements(matrix, batch)) * itemsize(dtype);
}

// Sums follow the output, aligned for any load.
std::size_t sums_begin(std::size_t out_nbytes) { return (out_nbytes + 255) / 256 * 256; }
std::size_t with_sums(std::size_t out_nbytes, const MatmulPlan& plan) {
  if (!plan.makes_sums) return out_nbytes;
  return sums_begin(out_nbytes) + static_cast<std::size_t>(plan.out.columns) * sizeof(float);
}

// Whether all memory of a trial fits into half of the free memory: other threads run concurrently.
bool has_room(const ProductKey& key) {
  const MatmulPlan& plan = key.plan;
  const std::size_t needed = bytes(plan.left, plan.batch, plan.dtype) +
                             bytes(plan.right, plan.batch, plan.dtype) +
                             2 * bytes(plan.out, plan.batch, plan.product);
  const DeviceGuard guard(key.device);
  std::size_t free = 0, total = 0;
  RINGLET_CUDA(cudaMemGetInfo(&free, &total));
  return needed <= free / 2;
}

void fill(Device device, const MatmulPlan& plan, const ColumnMajor& matrix, bool along_columns,
          bool negated, void* out) {
  const std::int64_t n = elements(matrix, plan.batch);
  dispatch_floating("matmul", plan.dtype, [&]<class T>() {
    launch("fill_cancelling", device, fill_cancelling<T>, grid_for(n), kThreads, 0,
           static_cast<T*>(out), matrix, along_columns, negated, n);
  });
}

class Trial {
 public:
  Trial(const ProductDescriptors& descriptors, const ProductKey& key)
      : descriptors_(descriptors),
        key_(key),
        stream_(current_stream(key.device)),
        out_nbytes_(bytes(key.plan.out, key.plan.batch, key.plan.product)),
        nbytes_(with_sums(out_nbytes_, key.plan)),
        left_(key.device, bytes(key.plan.left, key.plan.batch, key.plan.dtype)),
        right_(key.device, bytes(key.plan.right, key.plan.batch, key.plan.dtype)),
        bias_(key.device, static_cast<std::size_t>(key.plan.out.rows) * sizeof(double)),
        expected_(key.device, nbytes_),
        out_(key.device, nbytes_),
        workspace_(key.device, kProductWorkspace),
        different_(key.device, sizeof(int)),
        start_(key.device, true),
        end_(key.device, true) {}

  bool ready() const {
    return left_.get() && right_.get() && bias_.get() && expected_.get() && out_.get() &&
           workspace_.get() && different_.get();
  }

  void prepare(const cublasLtMatmulHeuristicResult_t& first) {
    const MatmulPlan& plan = key_.plan;
    fill(key_.device, plan, plan.left, !plan.left.transposed, true, left_.get());
    fill(key_.device, plan, plan.right, plan.right.transposed, false, right_.get());
    const auto bias_bytes = static_cast<std::size_t>(plan.out.rows) * sizeof(double);
    RINGLET_CUDA(cudaMemsetAsync(bias_.get(), 0, bias_bytes, stream_));
    for (const Bytes* made : {&expected_, &out_})  // also makes unwritten bytes equal
      RINGLET_CUDA(cudaMemsetAsync(made->get(), 0, nbytes_, stream_));
    run(first, expected_.get());
  }

  /// The time of a choice if the device can run it and its bits equal the first's.
  std::optional<float> milliseconds_if_alike(const cublasLtMatmulHeuristicResult_t& choice) {
    try {
      if (is_alike(choice)) return milliseconds(choice);
    } catch (const Error&) {
      static_cast<void>(cudaGetLastError());
    }
    return std::nullopt;
  }

 private:
  bool is_alike(const cublasLtMatmulHeuristicResult_t& choice) {
    run(choice, out_.get());
    RINGLET_CUDA(cudaMemsetAsync(different_.get(), 0, sizeof(int), stream_));
    const auto words = static_cast<std::int64_t>(nbytes_ / sizeof(std::uint16_t));
    launch("find_difference", key_.device, find_difference, grid_for(words), kThreads, 0,
           static_cast<const std::uint16_t*>(expected_.get()),
           static_cast<const std::uint16_t*>(out_.get()), words,
           static_cast<int*>(different_.get()));
    int different = 0;
    RINGLET_CUDA(cudaMemcpyAsync(&different, different_.get(), sizeof(int), cudaMemcpyDeviceToHost,
                                 stream_));
    RINGLET_CUDA(cudaStreamSynchronize(stream_));
    return different == 0;
  }

  float milliseconds(const cublasLtMatmulHeuristicResult_t& choice) {
    run(choice, out_.get());
    start_.record(stream_);
    for (int i = 0; i < kTimedRuns; ++i) run(choice, out_.get());
    end_.record(stream_);
    end_.synchronize();
    return end_.milliseconds_since(start_);
  }
  // With beta, `out` starts from zeros; otherwise runs would differ.
  void run(const cublasLtMatmulHeuristicResult_t& choice, void* out) {
    if (key_.plan.beta != 0) RINGLET_CUDA(cudaMemsetAsync(out, 0, out_nbytes_, stream_));
    std::byte* const behind = static_cast<std::byte*>(out) + sums_begin(out_nbytes_);
    void* const sums = key_.plan.makes_sums ? behind : nullptr;
    descriptors_.run(key_, choice.algo, {left_.get(), right_.get(), bias_.get(), sums, out},
                     workspace_.get(), choice.workspaceSize, stream_);
  }

  const ProductDescriptors& descriptors_;
  const ProductKey& key_;
  cudaStream_t stream_;
  std::size_t out_nbytes_;
  std::size_t nbytes_;  // of out and, after it, the sums
  Bytes left_, right_, bias_, expected_, out_, workspace_, different_;
  Event start_, end_;
};

}  // namespace

TimedChoice time_choices(const ProductDescriptors& descriptors, const ProductKey& key,
                         const std::vector<cublasLtMatmulHeuristicResult_t>& choices) {
  if (choices.size() < 2 || key.plan.k < kLeastTimedSum || !has_room(key)) return {};
  Trial trial(descriptors, key);
  if (!trial.ready()) return {};  // no memory for a trial: keep the first choice
  trial.prepare(choices.front());
  return fastest_alike(choices.size(),
                       [&](std::size_t i) { return trial.milliseconds_if_alike(choices[i]); });
}

}  // namespace ringlet::cuda
