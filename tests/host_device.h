// The common part of the emulated CUDA devices: host memory, and the CPU's kernels as calls that
// the device runs at any later time.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ringlet/core/device_objects.h"
#include "ringlet/core/graph.h"
#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/core/ops/convolution.h"
#include "ringlet/core/ops/cosine_similarity.h"
#include "ringlet/core/ops/cross_entropy.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/core/ops/fill.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/layer_norm.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/max_pool.h"
#include "ringlet/core/ops/normalize.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/core/ops/pooling.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"
#include "ringlet/core/ops/softmax.h"
#include "ringlet/core/ops/topk.h"
#include "ringlet/cuda/rounded.h"
#include "ringlet/cuda/segment_source.h"

namespace ringlet {

/// Segments of NaN, so that uninitialised reads are visible.
struct HostSegments : cuda::SegmentSource {
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

class HostDevice : public Backend {
 public:
  HostDevice() {
    ensure_registered();
    installed = this;
    set_backend(DeviceType::cuda, this);
    add_kernels();
  }
  ~HostDevice() override {
    set_backend(DeviceType::cuda, nullptr);
    installed = nullptr;
  }
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  std::unique_ptr<DeviceRanks> make_ranks(Device device, int ranks, double) override {
    return std::make_unique<OwnRanks>(device, ranks);
  }

 protected:
  using Call = std::function<void()>;
  virtual void give(Device device, Call call) = 0;

 private:
  inline static HostDevice* installed = nullptr;

  /// One call for all ranks, with the CPU's sums.
  struct OwnRanks final : DeviceRanks {
    OwnRanks(Device device, int ranks) : device(device), ranks(ranks) {}
    void all_reduce(std::span<void* const> data, std::span<const std::int64_t> edges, DType dtype,
                    Route route, CombineOp op, double scale) override {
      const auto n = static_cast<std::size_t>(ranks);
      RINGLET_CHECK(data.size() == n && edges.size() == n + 1, "data of ", data.size(), " ranks, ",
                    edges.size(), " edges, of ", n, " ranks");
      const std::vector<std::byte*> own = bytes_of(data);
      const std::vector<std::int64_t> ends(edges.begin(), edges.end());
      installed->give(device, [own, ends, dtype, route, op, scale] {
        for (std::size_t piece = 0; piece < own.size(); ++piece)
          reduce(own, piece, ends, route, {nullptr, nullptr, 0, 0, op, scale, dtype});
      });
    }

    static std::vector<std::byte*> bytes_of(std::span<void* const> data) {
      std::vector<std::byte*> bytes;
      for (void* const each : data) bytes.push_back(static_cast<std::byte*>(each));
      return bytes;
    }
    /// Added in the order of the ring up to its owner, or in rank order.
    static void reduce(const std::vector<std::byte*>& data, std::size_t piece,
                       const std::vector<std::int64_t>& edges, Route route, CombineArgs args) {
      if (edges[piece] == edges[piece + 1]) return;
      const std::size_t itemsize = ringlet::itemsize(args.dtype);
      const std::size_t offset = static_cast<std::size_t>(edges[piece]) * itemsize;
      const std::size_t first = route == Route::ring ? piece + 1 : 0;
      std::vector<const void*> sources;
      for (std::size_t i = 0; i < data.size(); ++i)
        sources.push_back(data[(first + i) % data.size()] + offset);
      args.n = edges[piece + 1] - edges[piece];
      std::vector<std::byte> sum(static_cast<std::size_t>(args.n) * itemsize);
      args.out = sum.data();
      args.sources = sources.data();
      args.count = static_cast<int>(sources.size());
      combine_kernel(args, Device{});
      for (std::byte* to : data) std::memcpy(to + offset, sum.data(), sum.size());
    }

    Device device;
    int ranks;
  };

  // A weight that counts as rounded is read from the cache of cuda/rounded.h. A call cannot hold
  // the storage that owns other forms.
  static void multiply(const MatmulArgs& args, Device device) {
    MatmulArgs own = args;
    own.keep_b = own.round_b = own.round_bias = nullptr;
    std::shared_ptr<const std::byte> rounded;
    if (args.round_b && args.k > 0) {
      const std::int64_t n = (args.batch - 1) * args.b_stride + args.k * args.n;
      rounded = cuda::kept_rounded({args.b, n, args.b_dtype, args.dtype, args.round_b, true},
                                   device, work_order(device));
    }
    if (rounded) {
      own.b = rounded.get();
      own.b_dtype = args.dtype;
    }
    installed->give(device, [own] { matmul_kernel(own, Device{}); });
  }
  // As in cuda/matmul_operand.h: captured work does not order other work.
  static std::uint64_t work_order(Device device) {
    return reinterpret_cast<std::uintptr_t>(installed->stream(device)) + (is_capturing() ? 1 : 0);
  }
  template <class Args, Kernel<Args>& kernel>
  static void add() {
    kernel.set(DeviceType::cuda, [](const Args& args, Device device) {
      installed->give(device, [own = args] { kernel(own, Device{}); });
    });
  }

  static void add_kernels() {
    combine_kernel.set(DeviceType::cuda, [](const CombineArgs& args, Device device) {
      const std::vector<const void*> sources(args.sources, args.sources + args.count);
      installed->give(device, [own = args, sources]() mutable {
        own.sources = sources.data();
        combine_kernel(own, Device{});
      });
    });
    add<Conv2dArgs, conv2d_kernel>();
    add<Conv2dBackwardInputArgs, conv2d_backward_input_kernel>();
    add<Conv2dBackwardWeightArgs, conv2d_backward_weight_kernel>();
    add<Conv2dBackwardBiasArgs, conv2d_backward_bias_kernel>();
    add<PermuteArgs, permute_kernel>();
    add<GatherArgs, gather_kernel>();
    add<ScatterAddArgs, scatter_add_kernel>();
    add<ScatterArgs, scatter_kernel>();
    add<MaxPool2dArgs, max_pool2d_kernel>();
    add<MaxPool2dBackwardArgs, max_pool2d_backward_kernel>();
    add<TopKArgs, topk_kernel>();
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
    matmul_kernel.set(DeviceType::cuda, multiply);
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
};

}  // namespace ringlet
