// The in-kernel all-reduce on a GPU: build/tests/cuda/cuda_tests --device cuda. Its argument errors
// are tested without one.
#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include "all_reduce_pieces.h"
#include "all_reduce_reference.h"
#include "on_gpu.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/cuda/peer_ranks.h"
#include "ringlet/tests/emulated/emulated.h"

using namespace ringlet;
using namespace ringlet::cuda;

namespace {

using Devices = std::vector<Device>;

Devices sharing(int ranks) { return Devices(static_cast<std::size_t>(ranks), default_device()); }

/// Rank r has GPU r, or shares one if there are fewer.
Devices spread(int ranks) {
  const DeviceType type = default_device().type;
  Devices devices;
  for (int rank = 0; rank < ranks; ++rank)
    devices.push_back({type, rank % backend(type).device_count()});
  return devices;
}

bool has_peers() {
  if (skipped()) return false;
  DeviceBackend& gpus = backend(default_device().type);
  const bool has = gpus.device_count() > 1 && gpus.has_link(spread(2)[0], spread(2)[1]);
  if (!has) MESSAGE("skipped: needs several GPUs with peer access");
  return has;
}

/// Every rank's elements on its GPU, at `offset` elements from a multiple of 16 bytes, and `skew`
/// more for each rank.
template <class T>
class OnDevice {
 public:
  OnDevice(const Devices& devices, const std::vector<std::vector<T>>& ranks, int offset,
           int skew = 0) {
    for (const std::vector<T>& values : ranks) {
      const auto n = static_cast<std::int64_t>(values.size());
      all_.push_back(empty({n + offset}, dtype_of<T>(), devices[all_.size()]));
      tensors_.push_back(all_.back().slice(offset, n + offset));
      offset += skew;
      set(tensors_.size() - 1, values);
      data_.push_back(tensors_.back().mutable_bytes());
    }
  }
  void set(std::size_t rank, const std::vector<T>& values) {
    Tensor host = empty(tensors_[rank].shape(), dtype_of<T>(), Device{});
    std::memcpy(host.mutable_bytes(), values.data(), host.nbytes());
    tensors_[rank].copy_(host);
  }
  std::span<void* const> data() const { return data_; }
  std::vector<T> values(std::size_t rank) const {
    const Tensor host = tensors_[rank].to(Device{});
    std::vector<T> out(static_cast<std::size_t>(host.numel()));
    std::memcpy(static_cast<void*>(out.data()), host.bytes(), host.nbytes());
    return out;
  }

 private:
  std::vector<Tensor> all_, tensors_;
  std::vector<void*> data_;
};

template <class T>
std::vector<std::vector<T>> inputs_of(int ranks, std::int64_t n, std::uint64_t seed) {
  std::vector<std::vector<T>> inputs;
  for (int rank = 0; rank < ranks; ++rank)
    inputs.push_back(scattered<T>(n, 100 * seed + static_cast<std::uint64_t>(rank)));
  return inputs;
}

comm::Algorithm on_cpu(CombineRoute route) {
  return route == CombineRoute::ring ? comm::Algorithm::ring : comm::Algorithm::direct;
}

/// Ranks and where they are.
struct Ranks {
  explicit Ranks(const Devices& on, PeerRanksOptions options = {})
      : devices(on), peers(on, options) {}
  /// One launch on each device, and their end.
  void run(const PeerCall& call) {
    const std::set<Device> different(devices.begin(), devices.end());
    for (const Device device : different) peers.load(call, device);
    for (const Device device : different) peers.run(call, device);
    for (const Device device : different) synchronize(device);
  }
  int size() const { return static_cast<int>(devices.size()); }
  Devices devices;
  PeerRanks peers;
};

/// The elements of its GPUs' tensors are there.
void wait_for(const Ranks& ranks) {
  for (const Device device : ranks.devices) synchronize(device);
}

template <class T>
void check(Ranks& ranks, std::int64_t n, int offset, ReduceOp op, int skew = 0) {
  const int size = ranks.size();
  for (const CombineRoute route : {CombineRoute::ring, CombineRoute::direct}) {
    CAPTURE(name(dtype_of<T>()));
    CAPTURE(static_cast<int>(route));
    CAPTURE(size);
    CAPTURE(n);
    CAPTURE(offset);
    const auto inputs = inputs_of<T>(size, n, static_cast<std::uint64_t>(n + offset));
    const OnDevice<T> device(ranks.devices, inputs, offset, skew);
    wait_for(ranks);
    ranks.run({.data = device.data(),
               .edges = edges_of(n, size),
               .dtype = dtype_of<T>(),
               .route = route,
               .op = op == ReduceOp::max ? CombineOp::max : CombineOp::sum,
               .scale = op == ReduceOp::mean ? 1.0 / size : 1.0});
    const auto expected = reduced_on_cpu(inputs, on_cpu(route), op);
    for (int rank = 0; rank < size; ++rank)
      CHECK(first_difference(device.values(static_cast<std::size_t>(rank)), expected) == -1);
  }
}

void check_sizes(const std::vector<std::int64_t>& sizes) {
  for (const int size : {2, 3, 4, 8}) {
    Ranks ranks(sharing(size));
    for (const std::int64_t n : sizes)
      for (const int offset : {0, 1}) {
        check<float>(ranks, n, offset, ReduceOp::sum);
        check<bfloat16>(ranks, n, offset, ReduceOp::mean, offset);
      }
  }
}

/// Each half of a direct all-reduce, of rank r's piece in memory of its own, or in place.
template <class T>
void check_halves(Ranks& ranks, std::int64_t n, bool in_place) {
  const int size = ranks.size();
  const std::vector<std::int64_t> edges = edges_of(n, size);
  const auto inputs = inputs_of<T>(size, n, static_cast<std::uint64_t>(n));
  const auto expected = reduced_on_cpu(inputs, comm::Algorithm::direct, ReduceOp::sum);
  const OnDevice<T> device(ranks.devices, inputs, 0);
  std::vector<std::vector<T>> blank;
  for (int rank = 0; rank < size; ++rank) blank.emplace_back(static_cast<std::size_t>(n), T(1));
  const OnDevice<T> sums(ranks.devices, blank, 1);
  wait_for(ranks);
  ranks.run({.data = device.data(),
             .edges = edges,
             .dtype = dtype_of<T>(),
             .gathers = false,
             .own = in_place ? std::span<void* const>() : sums.data()});
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    const auto begin = edges[rank], end = edges[rank + 1];
    std::vector<T> now = device.values(rank), before = inputs[rank];
    const std::vector<T> own = sums.values(rank);
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      CHECK(static_cast<float>(in_place ? now[at] : own[static_cast<std::size_t>(i - begin)]) ==
            static_cast<float>(expected[at]));
      if (in_place) before[at] = now[at];
    }
    CHECK(first_difference(now, before) == -1);  // the rest is as it was
  }
  wait_for(ranks);
  ranks.run({.data = device.data(), .edges = edges, .dtype = dtype_of<T>(), .reduces = false});
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    const std::vector<T> all = device.values(rank);
    for (std::size_t piece = 0; piece < inputs.size(); ++piece)
      for (std::int64_t i = edges[piece]; i < edges[piece + 1]; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const T whole = in_place ? expected[at] : inputs[piece][at];
        CHECK(static_cast<float>(all[at]) == static_cast<float>(whole));
      }
  }
}

}  // namespace

TEST_CASE("cuda: on a GPU, an in-kernel all-reduce has the bits of the CPU's, at any address") {
  if (skipped()) return;
  check_sizes({1, 17, 1001});
}

TEST_CASE("cuda: on a GPU, a long in-kernel all-reduce has the bits of the CPU's") {
  if (skipped()) return;
  check_sizes({100'003, 1'000'000});
}

TEST_CASE("cuda: on a GPU, an in-kernel all-reduce takes every dtype and op") {
  if (skipped()) return;
  Ranks ranks(sharing(3), {.most_chunk_bytes = 1024});  // many segments
  const auto all = [&]<class T>() {
    check<T>(ranks, 30'001, 0, ReduceOp::sum);
    check<T>(ranks, 30'001, 0, ReduceOp::max);
    if constexpr (!std::is_integral_v<T>) check<T>(ranks, 30'001, 0, ReduceOp::mean);
  };
  all.operator()<float>();
  all.operator()<double>();
  all.operator()<bfloat16>();
  all.operator()<float16>();
  all.operator()<std::int32_t>();
  all.operator()<std::int64_t>();
  all.operator()<std::uint8_t>();
}

TEST_CASE("cuda: on a GPU, a captured in-kernel all-reduce is replayed on new data") {
  if (skipped()) return;
  if (const std::string why = why_no_graphs(default_device()); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  const std::int64_t n = 10'000;
  PeerRanks ranks(sharing(4));
  OnDevice<float> device(sharing(4), inputs_of<float>(4, n, 0), 0);
  const std::vector<std::int64_t> edges = edges_of(n, 4);
  const auto graph = capture(default_device(), [&] {
    for (const CombineRoute route : {CombineRoute::ring, CombineRoute::direct})
      ranks.run({.data = device.data(), .edges = edges, .dtype = DType::f32, .route = route},
                default_device());
  });
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    const auto inputs = inputs_of<float>(4, n, seed);
    for (std::size_t rank = 0; rank < 4; ++rank) device.set(rank, inputs[rank]);
    graph->replay();
    synchronize(default_device());
    const auto once = reduced_on_cpu(inputs, comm::Algorithm::ring, ReduceOp::sum);
    const auto twice = reduced_on_cpu(std::vector(4, once), comm::Algorithm::direct, ReduceOp::sum);
    for (std::size_t rank = 0; rank < 4; ++rank)
      CHECK(first_difference(device.values(rank), twice) == -1);
  }
}

TEST_CASE("cuda: on a GPU, a rank without a launch ends the others, and is named") {
  if (skipped()) return;
  for (const CombineRoute route : {CombineRoute::ring, CombineRoute::direct}) {
    PeerRanks ranks(sharing(2));
    const OnDevice<float> device(sharing(2), inputs_of<float>(2, 1000, 1), 0);
    const std::vector<std::int64_t> edges = edges_of(1000, 2);
    const PeerCall call{.data = device.data(), .edges = edges, .dtype = DType::f32};
    all_reduce(ranks.view(call), plan_all_reduce(route, edges, DType::f32, 4), call,
               /*launched=*/std::array{0}, /*seconds=*/0.2, default_device());
    const char* line = "[all_reduce] rank 0 waited too long for rank 1 in step 0, segment 0";
    CHECK_THROWS_WITH_AS(synchronize(default_device()), line, Error);
    CHECK_THROWS_WITH_AS(ranks.run(call, default_device()), line, Error);
  }
}

TEST_CASE("cuda: on a GPU, each half of an in-kernel all-reduce has its bits") {
  if (skipped()) return;
  Ranks ranks(sharing(3), {.most_chunk_bytes = 1024});
  for (const bool in_place : {true, false}) {
    check_halves<float>(ranks, 5'003, in_place);
    check_halves<bfloat16>(ranks, 5'003, in_place);
  }
}

TEST_CASE("cuda: several GPUs, an in-kernel all-reduce has the bits of the CPU's") {
  if (!has_peers()) return;
  for (const int size : {2, 3, 4, 6}) {  // of six some share a GPU
    Ranks ranks(spread(size), {.most_chunk_bytes = 1024});
    for (const std::int64_t n : {1, 1001, 30'001})
      for (const int offset : {0, 1}) {
        check<float>(ranks, n, offset, ReduceOp::sum);
        check<bfloat16>(ranks, n, offset, ReduceOp::mean, offset);
      }
    check<std::int64_t>(ranks, 1001, 0, ReduceOp::max);
  }
}

TEST_CASE("cuda: several GPUs, each half of an in-kernel all-reduce has its bits") {
  if (!has_peers()) return;
  for (const int size : {2, 4, 5}) {
    Ranks ranks(spread(size), {.most_chunk_bytes = 1024});
    for (const bool in_place : {true, false}) {
      check_halves<float>(ranks, 5'003, in_place);
      check_halves<bfloat16>(ranks, 5'003, in_place);
    }
  }
}

TEST_CASE("cuda: several GPUs, one without a launch ends the others, and its rank is named") {
  if (!has_peers()) return;
  const Devices devices = spread(2);
  PeerRanks ranks(devices, {.seconds = 0.02});
  const OnDevice<float> device(devices, inputs_of<float>(2, 1000, 1), 0);
  const std::vector<std::int64_t> edges = edges_of(1000, 2);
  const PeerCall call{.data = device.data(), .edges = edges, .dtype = DType::f32};
  ranks.load(call, devices[1]);
  ranks.run(call, devices[1]);
  const char* line = "[all_reduce] rank 1 waited too long for rank 0 in step 0, segment 0";
  CHECK_THROWS_WITH_AS(synchronize(devices[1]), line, Error);
  CHECK_THROWS_WITH_AS(ranks.run(call, devices[0]), line, Error);
}

// Without the gate such a call waits here for the first launch, and the second one for the call.
TEST_CASE("cuda: several GPUs, calls of the driver wait while a launch is missing") {
  if (!has_peers()) return;
  const Devices devices = spread(2);
  DeviceBackend& gpus = backend(devices[1].type);
  const bool has_graphs = why_no_graphs(devices[1]).empty();
  const std::vector<std::int64_t> edges = edges_of(1000, 2);
  const auto inputs = inputs_of<float>(2, 1000, 1);
  const auto expected = reduced_on_cpu(inputs, comm::Algorithm::direct, ReduceOp::sum);
  MemoryBlock block;
  std::unique_ptr<DeviceStream> streams[2];
  std::unique_ptr<DeviceDownload> download;
  std::unique_ptr<DeviceGraph> graph;
  Tensor large = zeros({1 << 20}, DType::f32, devices[1]);
  const SideStream side(devices[1]);
  const auto captured = [&] {
    const StreamGuard on(side);
    if (has_graphs) graph = capture(devices[1], [&] { large.fill_(0); });
  };
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"memory", [&] { block = gpus.allocate(devices[1], std::size_t{24} << 20); }},
      {"a capture, which frees unused memory", captured},
      {"a graph's end", [&] { graph.reset(); }},
      {"a graph", captured},
      {"an event", [&] { gpus.make_event(devices[1]); }},
      {"streams",
       [&] {
         for (auto& stream : streams) stream = gpus.make_stream(devices[1], StreamPriority::low);
       }},
      {"pinned memory",
       [&] { download = gpus.start_download(devices[1], large.bytes(), large.nbytes()); }},
      {"the first launch of a kernel", [&] { gpus.hold(devices[1], 1e-9); }},
  };
  for (const auto& call : calls) {
    CAPTURE(call.first);
    PeerRanks ranks(devices, {.seconds = 1});
    const OnDevice<float> device(devices, inputs, 0);
    const PeerCall sum{.data = device.data(), .edges = edges, .dtype = DType::f32};
    for (const Device each : devices) ranks.load(sum, each);
    for (const Device each : devices) synchronize(each);
    ranks.run(sum, devices[0]);
    std::thread other(call.second);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ranks.run(sum, devices[1]);
    other.join();
    for (const Device each : devices) CHECK_NOTHROW(synchronize(each));
    for (std::size_t rank = 0; rank < 2; ++rank)
      CHECK(first_difference(device.values(rank), expected) == -1);
    if (block.data) gpus.release(devices[1], std::exchange(block, {}));
  }
}

TEST_CASE("cuda: several GPUs, the emulated driver refuses a call outside the gate") {
  if (!emulated::configure || !has_peers()) return;
  std::byte* const pinned = allocate_pinned(default_device(), 8);
  CHECK_THROWS_WITH(cudaFreeHost(pinned), "release outside the launch gate");
  CHECK_NOTHROW(free_pinned(pinned));
}

TEST_CASE("cuda: several GPUs, a rank that fails ends a launch that waits for it") {
  if (!has_peers()) return;
  const Devices devices = spread(2);
  PeerRanks ranks(devices, {.seconds = 60});
  const OnDevice<float> device(devices, inputs_of<float>(2, 1000, 1), 0);
  const std::vector<std::int64_t> edges = edges_of(1000, 2);
  const PeerCall call{.data = device.data(), .edges = edges, .dtype = DType::f32};
  ranks.load(call, devices[1]);
  ranks.run(call, devices[1]);
  ranks.abandon();
  CHECK_THROWS_WITH_AS(device.values(1), "[all_reduce] ended, because a rank has failed", Error);
}

TEST_CASE("cuda: on a GPU, blocks that cannot all run at once are refused") {
  if (skipped()) return;
  PeerRanks ranks(sharing(2));
  const std::vector<std::int64_t> edges = edges_of(100'000'000, 2);
  const Tensor data = empty({16});  // never read
  void* const both[] = {const_cast<std::byte*>(data.bytes()), const_cast<std::byte*>(data.bytes())};
  const PeerCall call{.data = both, .edges = edges, .dtype = DType::f32};
  const auto plan = plan_all_reduce(CombineRoute::direct, edges, DType::f32, 100'000);
  CHECK_THROWS_AS(all_reduce(ranks.view(call), plan, call, std::array{0, 1}, 1, default_device()),
                  Error);
  CHECK_NOTHROW(synchronize(default_device()));
}

TEST_CASE("cuda: an in-kernel all-reduce refuses what it cannot do, before it runs") {
  std::uint64_t error = 0;
  alignas(16) float elements[32] = {};
  PeerView view{};
  view.ranks = 2;
  view.error = &error;
  view.data[0] = elements, view.data[1] = elements + 16;
  view.own[0] = view.own[1] = elements;
  const std::vector<std::int64_t> edges = edges_of(16, 2);
  const auto plan = plan_all_reduce(CombineRoute::ring, edges, DType::f32, 1);
  bool gathers = true;
  const auto line = [&](DType dtype, CombineOp op, double scale, int launched,
                        double seconds) -> std::string {
    const PeerCall call{
        .data = {}, .edges = edges, .dtype = dtype, .op = op, .scale = scale, .gathers = gathers};
    try {
      all_reduce(view, plan, call, std::vector(static_cast<std::size_t>(launched), 0), seconds,
                 Device{DeviceType::cuda, 0});
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  CHECK(line(DType::i32, CombineOp::sum, 0.5, 2, 1) ==
        "[all_reduce] scale 0.5: only sums of floating types take one other than 1");
  CHECK(line(DType::f32, CombineOp::max, 0.5, 2, 1) ==
        "[all_reduce] scale 0.5: only sums of floating types take one other than 1");
  CHECK(line(DType::f32, CombineOp::sum, 1, 3, 1) == "[all_reduce] a launch of 3 of 2 ranks");
  CHECK(line(DType::f32, CombineOp::sum, 1, 2, 0) == "[all_reduce] waits of 0 s");
  gathers = false;
  CHECK(line(DType::f32, CombineOp::sum, 1, 2, 1) ==
        "[all_reduce] half of a ring: a launch has both halves, or is direct");
  gathers = true;
  view.data[1] = reinterpret_cast<std::byte*>(elements) + 2;
  CHECK(line(DType::f32, CombineOp::sum, 1, 2, 1) ==
        "[all_reduce] rank 1's elements lie at an address that 4 does not divide");
  error = Stall{1, 0, 2, 3}.word();
  CHECK(line(DType::f32, CombineOp::sum, 1, 2, 1) ==
        "[all_reduce] rank 1 waited too long for rank 0 in step 2, segment 3");
  view.ranks = 3;
  CHECK(line(DType::f32, CombineOp::sum, 1, 2, 1) ==
        "[all_reduce] ranks of the plan and the view: 2 != 3");
}
