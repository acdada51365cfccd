#include "host_device.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"
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
#include "ringlet/cuda/rounded.h"

namespace ringlet {
namespace {

HostDevice* installed = nullptr;

struct OwnRanks final : DeviceRanks {
  explicit OwnRanks(std::size_t ranks) : ranks(ranks) {}
  void run(const PeerCall& call, Device device) override {
    RINGLET_CHECK(call.data.size() == ranks && call.edges.size() == ranks + 1, "data of ",
                  call.data.size(), " ranks, ", call.edges.size(), " edges, of ", ranks, " ranks");
    const std::vector<std::byte*> data = bytes_of(call.data), own = bytes_of(call.own);
    const std::vector<std::int64_t> edges(call.edges.begin(), call.edges.end());
    PeerCall kept = call;
    kept.data = kept.own = {};
    kept.edges = {};
    installed->give(device, [data, own, edges, kept] {
      for (std::size_t piece = 0; piece < data.size(); ++piece) {
        const std::size_t begin = static_cast<std::size_t>(edges[piece]) * itemsize(kept.dtype),
                          end = static_cast<std::size_t>(edges[piece + 1]) * itemsize(kept.dtype);
        std::byte* const whole = own.empty() ? data[piece] + begin : own[piece];
        if (kept.reduces) reduce(data, piece, edges, whole, kept);
        for (std::byte* to : data)
          if (kept.gathers && to + begin != whole) std::memcpy(to + begin, whole, end - begin);
      }
    });
  }

  static std::vector<std::byte*> bytes_of(std::span<void* const> data) {
    std::vector<std::byte*> bytes;
    for (void* const each : data) bytes.push_back(static_cast<std::byte*>(each));
    return bytes;
  }
  /// `to`: added in the order of the ring up to its owner, or by the tree.
  static void reduce(const std::vector<std::byte*>& data, std::size_t piece,
                     const std::vector<std::int64_t>& edges, std::byte* to, const PeerCall& call) {
    if (edges[piece] == edges[piece + 1]) return;
    CombineArgs args{nullptr, nullptr, 0, 0, call.op, call.scale, call.dtype};
    const std::size_t itemsize = ringlet::itemsize(call.dtype);
    const std::size_t offset = static_cast<std::size_t>(edges[piece]) * itemsize;
    const std::size_t first = call.route == CombineRoute::ring ? piece + 1 : 0;
    std::vector<const void*> sources;
    for (std::size_t i = 0; i < data.size(); ++i)
      sources.push_back(data[(first + i) % data.size()] + offset);
    args.n = edges[piece + 1] - edges[piece];
    std::vector<std::byte> sum(static_cast<std::size_t>(args.n) * itemsize);
    args.out = sum.data();
    args.sources = sources.data();
    args.count = static_cast<int>(sources.size());
    std::vector<std::uint8_t> in_turn(sources.size(), 1);
    in_turn[0] = 0;
    if (call.route == CombineRoute::ring) args.additions = in_turn.data();
    combine_kernel(args, Device{});
    std::memcpy(to, sum.data(), sum.size());
  }

  std::size_t ranks;
};

// As in cuda/matmul_operand.h: captured work does not order other work.
std::uint64_t work_order(Device device) {
  return reinterpret_cast<std::uintptr_t>(installed->stream(device)) + (is_capturing() ? 1 : 0);
}

// A weight that counts as rounded is read from the cache of cuda/rounded.h. A call cannot hold
// the storage that owns other forms.
void multiply(const MatmulArgs& args, Device device) {
  MatmulArgs own = args;
  own.keep_b = own.round_b = own.round_bias = nullptr;
  std::shared_ptr<const std::byte> rounded;
  if (args.round_b && args.k > 0) {
    const std::int64_t n = (args.batch - 1) * args.b_stride + args.k * args.n;
    rounded = cuda::kept_rounded({args.b, n, args.b_dtype, args.dtype, args.round_b, true}, device,
                                 work_order(device));
  }
  if (rounded) {
    own.b = rounded.get();
    own.b_dtype = args.dtype;
  }
  installed->give(device, [own] { matmul_kernel(own, Device{}); });
}

template <auto& kernel>
void add_one() {
  kernel.set(DeviceType::cuda, [](const auto& args, Device device) {
    installed->give(device, [own = args] { kernel(own, Device{}); });
  });
}
template <auto&... kernels>
void add() {
  (add_one<kernels>(), ...);
}

void combine(const CombineArgs& args, Device device) {
  const std::vector<const void*> sources(args.sources, args.sources + args.count);
  std::vector<std::uint8_t> additions;
  for (int i = 0; i < args.count; ++i)
    additions.push_back(static_cast<std::uint8_t>(args.additions_after(i)));
  installed->give(device, [own = args, sources, additions]() mutable {
    own.sources = sources.data();
    own.additions = additions.data();
    combine_kernel(own, Device{});
  });
}

}  // namespace

HostDevice::HostDevice() {
  ensure_registered();
  installed = this;
  set_backend(DeviceType::cuda, this);
  combine_kernel.set(DeviceType::cuda, combine);
  matmul_kernel.set(DeviceType::cuda, multiply);
  add<conv2d_kernel, conv2d_backward_input_kernel, conv2d_backward_weight_kernel,
      conv2d_backward_bias_kernel, permute_kernel, gather_kernel, scatter_add_kernel,
      max_pool2d_kernel, max_pool2d_backward_kernel, attention_kernel, attention_backward_kernel,
      cosine_similarity_kernel, cosine_similarity_backward_kernel, cross_entropy_kernel,
      cross_entropy_backward_kernel, unary_kernel, binary_kernel, where_kernel, axpby_kernel,
      embedding_kernel, embedding_backward_kernel, embedding_sum_layer_norm_kernel, fill_kernel,
      cast_kernel, copy_blocks_kernel, layer_norm_kernel, layer_norm_backward_kernel,
      sum_rows_kernel, gelu_backward_kernel, normalize_kernel, normalize_backward_kernel,
      adamw_kernel, sgd_kernel, squared_norm_kernel, clip_factor_kernel, pooling_kernel,
      pooling_backward_kernel, random_kernel, dropout_kernel, reduce_kernel, softmax_kernel,
      softmax_backward_kernel>();
}
HostDevice::~HostDevice() {
  set_backend(DeviceType::cuda, nullptr);
  installed = nullptr;
}

std::unique_ptr<DeviceRanks> HostDevice::make_ranks(std::span<const Device> of_ranks, double) {
  const bool share = std::ranges::count(of_ranks, of_ranks.front()) == std::ssize(of_ranks);
  return share ? std::make_unique<OwnRanks>(of_ranks.size()) : nullptr;
}

}  // namespace ringlet
