// A CUDA device of host memory with the CPU's kernels, for programs without a GPU: what is captured
// on it is a list of calls, which a replay makes again with the numbers and addresses of then. It
// runs as far behind the host as a device may: nothing is done before the host waits for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
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
    here() = this;
    add_kernels();
  }
  ~RecordingDevice() override {
    run_to(given_);
    here() = nullptr;
    set_backend(DeviceType::cuda, nullptr);
  }
  RecordingDevice(const RecordingDevice&) = delete;
  RecordingDevice& operator=(const RecordingDevice&) = delete;

  /// How often the host has waited until the device had nothing left to compute.
  int ran_dry() const { return ran_dry_; }
  /// How many copies from the host it was given.
  int uploads() const { return uploads_; }

  int device_count() const override { return 1; }
  Block allocate(Device, std::size_t nbytes) override {
    return allocator_.allocate(nbytes, &stream_);
  }
  void release(Device, const Block& block) override { allocator_.release(block); }
  void copy(void* to, Device to_device, const void* from, Device from_device,
            std::size_t nbytes) override {
    if (to_device != from_device) check_not_capturing("a copy to or from the device");
    if (from_device.type == DeviceType::cpu) {
      ++uploads_;
      const auto* bytes = static_cast<const std::byte*>(from);  // read before this returns
      give({[to, read = std::vector<std::byte>(bytes, bytes + nbytes)] {
        std::memcpy(to, read.data(), read.size());
      }});
    } else if (to_device.type == DeviceType::cpu) {
      wait_to(given_);
      std::memcpy(to, from, nbytes);
    } else {
      run([=] { std::memmove(to, from, nbytes); });
    }
  }
  std::unique_ptr<Download> start_download(Device, const void* from, std::size_t nbytes) override {
    auto download = std::make_unique<Started>(*this, nbytes);
    give({[from, to = download->bytes] { std::memcpy(to->data(), from, to->size()); }});
    download->behind = given_;
    return download;
  }
  bool runs_behind() const override { return true; }
  void synchronize(Device) override {
    check_not_capturing("waiting for the device");
    wait_to(given_);
  }
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
    auto graph = std::make_unique<Recorded>(std::move(*std::exchange(calls(), nullptr)), *this);
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

  /// What the device has before it: in order, each once.
  struct Given {
    Call call;
    bool computes = false;  // not a copy to or from the host
  };

  struct Started final : Download {
    Started(RecordingDevice& device, std::size_t nbytes)
        : device(device), bytes(std::make_shared<std::vector<std::byte>>(nbytes)) {}
    const std::byte* wait() override {
      device.wait_to(behind);
      return bytes->data();
    }
    RecordingDevice& device;
    std::shared_ptr<std::vector<std::byte>> bytes;
    std::uint64_t behind = 0;
  };

  /// A replay that is not done when it goes has the calls.
  struct Recorded final : DeviceGraph {
    Recorded(Calls calls, RecordingDevice& device)
        : calls(std::make_shared<const Calls>(std::move(calls))), device(device) {
      device.allocator_.add_graph();
    }
    ~Recorded() override { device.allocator_.remove_graph(); }
    void replay() override {
      device.give({[all = calls] {
                     for (const Call& call : *all) call();
                   },
                   true});
    }
    std::size_t nodes() const override { return calls->size(); }
    std::shared_ptr<const Calls> calls;
    RecordingDevice& device;
  };

  /// Segments of NaN, so that what is read before it is written shows.
  struct HostSegments final : cuda::SegmentSource {
    explicit HostSegments(RecordingDevice& device) : device(device) {}
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
      device.run_to(device.given_);
      taken.erase(segment);
      std::free(segment);
    }
    std::string situation() const override { return ""; }
    RecordingDevice& device;
    std::set<std::byte*> taken;
  };

  static RecordingDevice*& here() {
    static RecordingDevice* device = nullptr;
    return device;
  }

  /// Of the capture under way; null: calls are given to the device.
  static std::unique_ptr<Calls>& calls() {
    static std::unique_ptr<Calls> under_way;
    return under_way;
  }
  static void run(Call call) {
    if (calls())
      calls()->push_back(std::move(call));
    else
      here()->give({std::move(call), true});
  }

  void give(Given work) {
    waiting_.push_back(std::move(work));
    ++given_;
  }
  void run_to(std::uint64_t behind) {
    while (given_ - waiting_.size() < behind) {
      const Given next = std::move(waiting_.front());
      waiting_.pop_front();
      next.call();
    }
  }
  void wait_to(std::uint64_t behind) {
    run_to(behind);
    const auto computes = [](const Given& given) { return given.computes; };
    if (std::none_of(waiting_.begin(), waiting_.end(), computes)) ++ran_dry_;
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
  std::deque<Given> waiting_;
  std::uint64_t given_ = 0;  // in all
  int ran_dry_ = 0, uploads_ = 0;
  HostSegments segments_{*this};
  cuda::CachingAllocator allocator_{{DeviceType::cuda, 0}, segments_};
};

}  // namespace ringlet
