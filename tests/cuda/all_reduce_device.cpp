// The in-kernel all-reduce on a GPU: build/tests/cuda/cuda_tests --device cuda. Its argument errors
// are tested without one.
#include <doctest/doctest.h>

#include "all_reduce_pieces.h"
#include "all_reduce_reference.h"
#include "on_gpu.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/cuda/virtual_ranks.h"

using namespace ringlet;
using namespace ringlet::cuda;

namespace {

/// Every rank's elements on the GPU, at `offset` elements from a multiple of 16 bytes, and `skew`
/// more for each rank.
template <class T>
class OnDevice {
 public:
  OnDevice(const std::vector<std::vector<T>>& ranks, int offset, int skew = 0) {
    for (const std::vector<T>& values : ranks) {
      const auto n = static_cast<std::int64_t>(values.size());
      all_.push_back(empty({n + offset}, dtype_of<T>()));
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

template <class T>
void check(VirtualRanks& ranks, int size, std::int64_t n, int offset, ReduceOp op, int skew = 0) {
  for (const CombineRoute route : {CombineRoute::ring, CombineRoute::direct}) {
    CAPTURE(name(dtype_of<T>()));
    CAPTURE(static_cast<int>(route));
    CAPTURE(size);
    CAPTURE(n);
    CAPTURE(offset);
    const auto inputs = inputs_of<T>(size, n, static_cast<std::uint64_t>(n + offset));
    const OnDevice<T> device(inputs, offset, skew);
    ranks.all_reduce(device.data(), edges_of(n, size), dtype_of<T>(), route,
                     op == ReduceOp::max ? CombineOp::max : CombineOp::sum,
                     op == ReduceOp::mean ? 1.0 / size : 1.0);
    ranks.synchronize();
    const auto expected = reduced_on_cpu(inputs, on_cpu(route), op);
    for (int rank = 0; rank < size; ++rank)
      CHECK(first_difference(device.values(static_cast<std::size_t>(rank)), expected) == -1);
  }
}

void check_sizes(const std::vector<std::int64_t>& sizes) {
  for (const int size : {2, 3, 4, 8}) {
    VirtualRanks ranks(default_device(), size);
    for (const std::int64_t n : sizes)
      for (const int offset : {0, 1}) {
        check<float>(ranks, size, n, offset, ReduceOp::sum);
        check<bfloat16>(ranks, size, n, offset, ReduceOp::mean, offset);
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
  VirtualRanks ranks(default_device(), 3, {.most_chunk_bytes = 1024});  // many segments
  const auto all = [&]<class T>() {
    check<T>(ranks, 3, 30'001, 0, ReduceOp::sum);
    check<T>(ranks, 3, 30'001, 0, ReduceOp::max);
    if constexpr (!std::is_integral_v<T>) check<T>(ranks, 3, 30'001, 0, ReduceOp::mean);
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
  VirtualRanks ranks(default_device(), 4);
  OnDevice<float> device(inputs_of<float>(4, n, 0), 0);
  const auto graph = capture(default_device(), [&] {
    ranks.all_reduce(device.data(), edges_of(n, 4), DType::f32, CombineRoute::ring);
    ranks.all_reduce(device.data(), edges_of(n, 4), DType::f32, CombineRoute::direct);
  });
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    const auto inputs = inputs_of<float>(4, n, seed);
    for (std::size_t rank = 0; rank < 4; ++rank) device.set(rank, inputs[rank]);
    graph->replay();
    ranks.synchronize();
    const auto once = reduced_on_cpu(inputs, comm::Algorithm::ring, ReduceOp::sum);
    const auto twice = reduced_on_cpu(std::vector(4, once), comm::Algorithm::direct, ReduceOp::sum);
    for (std::size_t rank = 0; rank < 4; ++rank)
      CHECK(first_difference(device.values(rank), twice) == -1);
  }
}

TEST_CASE("cuda: on a GPU, a rank without a launch ends the others, and is named") {
  if (skipped()) return;
  for (const CombineRoute route : {CombineRoute::ring, CombineRoute::direct}) {
    VirtualRanks ranks(default_device(), 2);
    const OnDevice<float> device(inputs_of<float>(2, 1000, 1), 0);
    const auto plan = plan_all_reduce(route, edges_of(1000, 2), DType::f32, 4);
    all_reduce(ranks.view(device.data()), plan, DType::f32, CombineOp::sum, 1, /*launched=*/1,
               /*seconds=*/0.2, default_device());
    const char* line = "[all_reduce] rank 0 waited too long for rank 1 in step 0, segment 0";
    CHECK_THROWS_WITH_AS(ranks.synchronize(), line, Error);
    CHECK_THROWS_WITH_AS(
        ranks.all_reduce(device.data(), edges_of(1000, 2), DType::f32, CombineRoute::direct), line,
        Error);
  }
}

TEST_CASE("cuda: on a GPU, blocks that cannot all run at once are refused") {
  if (skipped()) return;
  VirtualRanks ranks(default_device(), 2);
  const std::int64_t n = 100'000'000;
  const Tensor data = empty({16});  // never read
  void* const both[] = {const_cast<std::byte*>(data.bytes()), const_cast<std::byte*>(data.bytes())};
  const auto plan = plan_all_reduce(CombineRoute::direct, edges_of(n, 2), DType::f32, 100'000);
  CHECK_THROWS_AS(
      all_reduce(ranks.view(both), plan, DType::f32, CombineOp::sum, 1, 2, 1, default_device()),
      Error);
  CHECK_NOTHROW(ranks.synchronize());
}

TEST_CASE("cuda: an in-kernel all-reduce refuses what it cannot do, before it runs") {
  std::uint64_t error = 0;
  alignas(16) float elements[32] = {};
  PeerView view{};
  view.ranks = 2;
  view.error = &error;
  view.data[0] = elements, view.data[1] = elements + 16;
  const auto plan = plan_all_reduce(CombineRoute::ring, edges_of(16, 2), DType::f32, 1);
  const auto line = [&](DType dtype, CombineOp op, double scale, int launched,
                        double seconds) -> std::string {
    try {
      all_reduce(view, plan, dtype, op, scale, launched, seconds, Device{DeviceType::cuda, 0});
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
