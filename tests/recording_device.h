// A CUDA device of host memory with the CPU's kernels, for programs without a GPU: what is captured
// on it is a list of calls, which a replay makes again with the numbers and addresses of then.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/graph.h"
#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/cosine_similarity.h"
#include "ringlet/core/ops/cross_entropy.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/core/ops/fill.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/layer_norm.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/normalize.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/core/ops/pooling.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"
#include "ringlet/core/ops/softmax.h"
#include "ringlet/cuda/caching_allocator.h"

namespace ringlet {

class RecordingDevice final : public Backend {
 public:
  RecordingDevice() {
    ensure_registered();
    set_backend(DeviceType::cuda, this);
    add_kernels();
  }
  ~RecordingDevice() override { set_backend(DeviceType::cuda, nullptr); }
  RecordingDevice(const RecordingDevice&) = delete;
  RecordingDevice& operator=(const RecordingDevice&) = delete;

  int device_count() const override { return 1; }
  Block allocate(Device, std::size_t nbytes) override {
    return allocator_.allocate(nbytes, &stream_);
  }
  void release(Device, const Block& block) override { allocator_.release(block); }
  void copy(void* to, Device to_device, const void* from, Device from_device,
            std::size_t nbytes) override {
    if (to_device != from_device) check_not_capturing("a copy to or from the device");
    run([=] { std::memmove(to, from, nbytes); });
  }
  void synchronize(Device) override { check_not_capturing("waiting for the device"); }
  MemoryStats memory(Device) const override { return allocator_.stats(); }
  void count_sidecar(Device, const Block&, std::ptrdiff_t) override {}
  void reset_peak(Device) override { allocator_.reset_peak(); }
  void set_limit(Device, std::size_t nbytes) override { allocator_.set_limit(nbytes); }

  std::string why_no_graphs(Device) const override { return ""; }
  void begin_capture(Device) override {
    allocator_.trim();
    allocator_.begin_capture(&stream_);
    calls() = std::make_unique<Calls>();
  }
  std::unique_ptr<DeviceGraph> end_capture(Device) override {
    auto graph =
        std::make_unique<Recorded>(std::move(*std::exchange(calls(), nullptr)), allocator_);
    const std::size_t left = allocator_.end_capture();
    RINGLET_CHECK(left == 0, "[graph] ", left, " bytes outlive the capture");
    return graph;
  }
  void abandon_capture(Device) override {
    calls().reset();
    allocator_.end_capture();
  }

 private:
  using Call = std::function<void()>;
  using Calls = std::vector<Call>;

  struct Recorded final : DeviceGraph {
    Recorded(Calls calls, cuda::CachingAllocator& allocator)
        : calls(std::move(calls)), allocator(allocator) {
      allocator.add_graph();
    }
    ~Recorded() override { allocator.remove_graph(); }
    void replay() override {
      for (const Call& call : calls) call();
    }
    std::size_t nodes() const override { return calls.size(); }
    Calls calls;
    cuda::CachingAllocator& allocator;
  };

  /// Segments of NaN, so that what is read before it is written shows.
  struct HostSegments final : cuda::SegmentSource {
    HostSegments() = default;
    HostSegments(const HostSegments&) = delete;
    HostSegments& operator=(const HostSegments&) = delete;
    ~HostSegments() override {
      for (std::byte* segment : taken) std::free(segment);
    }
    std::byte* take(std::size_t nbytes) override {
      auto* data = static_cast<std::byte*>(std::aligned_alloc(512, (nbytes + 511) / 512 * 512));
      std::memset(data, 0xff, nbytes);
      taken.insert(data);
      return data;
    }
    void give_back(std::byte* segment) override {
      taken.erase(segment);
      std::free(segment);
    }
    std::string situation() const override { return ""; }
    std::set<std::byte*> taken;
  };

  /// Of the capture under way; null: calls are made at once.
  static std::unique_ptr<Calls>& calls() {
    static std::unique_ptr<Calls> under_way;
    return under_way;
  }
  static void run(Call call) {
    if (calls())
      calls()->push_back(std::move(call));
    else
      call();
  }

  // Other forms of a weight are a storage's, which a call cannot hold.
  static MatmulArgs alone(MatmulArgs args) {
    args.keep_b = nullptr;
    return args;
  }
  template <class Args>
  static const Args& alone(const Args& args) {
    return args;
  }
  template <class Args, Kernel<Args>& kernel>
  static void add() {
    kernel.set(DeviceType::cuda, [](const Args& args, Device) {
      run([own = alone(args)] { kernel(own, Device{}); });
    });
  }

  static void add_kernels() {
    add<AttentionArgs, attention_kernel>();
    add<AttentionBackwardArgs, attention_backward_kernel>();
    add<CosineSimilarityArgs, cosine_similarity_kernel>();
    add<CosineSimilarityBackwardArgs, cosine_similarity_backward_kernel>();
    add<CrossEntropyArgs, cross_entropy_kernel>();
    add<CrossEntropyBackwardArgs, cross_entropy_backward_kernel>();
    add<UnaryArgs, unary_kernel>();
    add<BinaryArgs, binary_kernel>();
    add<WhereArgs, where_kernel>();
    add<AxpbyArgs, axpby_kernel>();
    add<EmbeddingArgs, embedding_kernel>();
    add<EmbeddingBackwardArgs, embedding_backward_kernel>();
    add<EmbeddingSumArgs, embedding_sum_layer_norm_kernel>();
    add<FillArgs, fill_kernel>();
    add<CastArgs, cast_kernel>();
    add<CopyBlocksArgs, copy_blocks_kernel>();
    add<LayerNormArgs, layer_norm_kernel>();
    add<LayerNormBackwardArgs, layer_norm_backward_kernel>();
    add<MatmulArgs, matmul_kernel>();
    add<SumRowsArgs, sum_rows_kernel>();
    add<GeluBackwardArgs, gelu_backward_kernel>();
    add<NormalizeArgs, normalize_kernel>();
    add<NormalizeBackwardArgs, normalize_backward_kernel>();
    add<AdamWArgs, adamw_kernel>();
    add<SGDArgs, sgd_kernel>();
    add<SquaredNormArgs, squared_norm_kernel>();
    add<ClipFactorArgs, clip_factor_kernel>();
    add<PoolingArgs, pooling_kernel>();
    add<PoolingBackwardArgs, pooling_backward_kernel>();
    add<RandomArgs, random_kernel>();
    add<DropoutArgs, dropout_kernel>();
    add<DropoutArgs, dropout_mask_kernel>();
    add<ReduceArgs, reduce_kernel>();
    add<SoftmaxArgs, softmax_kernel>();
    add<SoftmaxBackwardArgs, softmax_backward_kernel>();
  }

  int stream_ = 0;  // its address serves as one
  HostSegments segments_;
  cuda::CachingAllocator allocator_{{DeviceType::cuda, 0}, segments_};
};

}  // namespace ringlet
