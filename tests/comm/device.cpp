// Collectives of tensors on a GPU, in addition to group.cpp, which runs there, too.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "ranks.h"
#include "ringlet/comm/engines.h"
#include "ringlet/comm/membership.h"
#include "ringlet/comm/observer.h"
#include "ringlet/comm/schedule.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/ops/elementwise.h"

using namespace ringlet;
using namespace ringlet::comm;

namespace {

/// False on a CPU, where these tests do not apply.
bool on_a_gpu() {
  if (default_device().type != DeviceType::cpu) return true;
  MESSAGE("skipped: needs --device delayed or cuda");
  return false;
}

bool has_graphs() {
  if (!on_a_gpu()) return false;
  const std::string why = why_no_graphs(default_device());
  if (!why.empty()) MESSAGE("skipped: " << why);
  return why.empty();
}

const std::vector<Algorithm> kAlgorithms = {Algorithm::direct, Algorithm::ring};

void expect_sum(const Tensor& actual, int ranks, const char* what) {
  const auto sum = [&](std::int64_t i) { return sum_over_ranks(ranks, i); };
  expect(actual, 0, actual.numel(), sum, what);
}

/// Fractions, so that every order of summation gives different bits.
Tensor fraction(int rank, DType dtype) {
  return add(numbered(rank, 1003), full({1003}, 0.3 / (rank + 1))).to(dtype);
}

/// Whether GPUs run the ranks of one kernel each.
bool runs_across_gpus() {
  DeviceBackend& gpus = backend(default_device().type);
  const Device first{default_device().type, 0}, second{default_device().type, 1};
  return gpus.device_count() > 1 && gpus.has_link(first, second) &&
         gpus.make_ranks(std::vector{first, second}, 1);
}

/// A reduce-scatter and an all-gather, of pieces that kernels take and of others.
void expect_same_halves(const Group& group, const Group& by_steps, const Tensor& x) {
  for (const std::int64_t align : {16, 1}) {
    const Pieces pieces = even_pieces(1003, group.size(), align);
    const std::int64_t count = pieces[static_cast<std::size_t>(group.rank())].count;
    const Tensor mine = zeros({count}, x.dtype(), x.device()), theirs = mine.clone();
    group.reduce_scatter(mine, x.clone(), pieces).wait();  // a ring adds up in its input
    by_steps.reduce_scatter(theirs, x.clone(), pieces).wait();
    expect_same_bits(mine, theirs, str("reduce_scatter, pieces of ", align));
    const Tensor all = zeros({1003}, x.dtype(), x.device()), too = all.clone();
    group.all_gather(all, mine, pieces).wait();
    by_steps.all_gather(too, mine, pieces).wait();
    expect_same_bits(all, too, str("all_gather, pieces of ", align));
  }
}

}  // namespace

TEST_CASE("a GPU per rank: what comes from another one is fetched first") {
  if (!on_a_gpu()) return;
  const int devices = backend(default_device().type).device_count();
  for (const Algorithm algorithm : kAlgorithms)
    launch(
        [&](const Group& group) {
          const Device own{default_device().type, group.rank() % devices};
          for (const DType dtype : kDTypes) {
            const Tensor x = numbered(group.rank(), 1003, dtype).to(own);
            group.all_reduce(x).wait();
            expect_sum(x, group.size(), "all_reduce");
          }
        },
        4, {.group = {.algorithm = algorithm, .segment_bytes = 512}});
}

TEST_CASE("a GPU per rank: what is gathered or broadcast is fetched to its place") {
  constexpr int kRanks = 4;
  if (!on_a_gpu() || backend(default_device().type).device_count() < kRanks) return;
  for (const Algorithm algorithm : kAlgorithms)
    launch(
        [](const Group& group) {
          const Device own{default_device().type, group.rank()};
          const Pieces pieces = even_pieces(1003, kRanks);
          const auto [first, count] = pieces[static_cast<std::size_t>(group.rank())];
          const Tensor x = numbered(group.rank(), 1003).to(own);
          const Tensor part = x.slice(first, first + count).clone(), all = x.clone();
          const Tensor sent = x.clone();
          const auto temporaries = [&](const std::function<void()>& calls) {
            group.barrier();  // no rank allocates during the count
            const std::uint64_t before = memory_stats(own).allocations;
            calls();
            const std::uint64_t after = memory_stats(own).allocations;
            group.barrier();
            return after - before;
          };
          RINGLET_CHECK_EQ(temporaries([&] {
                             group.all_gather(all, part, pieces).wait();
                             group.broadcast(sent, 2).wait();
                           }),
                           std::uint64_t{0}, "temporaries of rank ", group.rank());
          // Every temporary holds received data: one per peer of a sum.
          RINGLET_CHECK_EQ(temporaries([&] { group.all_reduce(x).wait(); }),
                           std::uint64_t{kRanks - 1}, "summands of rank ", group.rank());
          for (int rank = 0; rank < kRanks; ++rank) {
            const auto [offset, n] = pieces[static_cast<std::size_t>(rank)];
            expect(
                all, offset, offset + n, [&](std::int64_t i) { return element(rank, i); },
                "all_gather");
          }
          expect(
              sent, 0, 1003, [](std::int64_t i) { return element(2, i); }, "broadcast");
          expect_sum(x, kRanks, "all_reduce");
        },
        kRanks, {.group = {.transport = TransportKind::thread, .algorithm = algorithm}});
}

TEST_CASE("a tensor may go before its collective has run on the device") {
  if (!on_a_gpu()) return;
  std::atomic<int> reused{0};
  launch(
      [&](const Group& group) {
        for (int round = 0; round < 20; ++round) {
          const std::byte* memory = nullptr;
          {
            const Tensor x = numbered(group.rank(), 1000);
            memory = x.bytes() - sizeof(float);  // it is a slice
            const Work work = group.all_reduce(x);
            while (!work.done()) std::this_thread::yield();
          }
          std::vector<Tensor> next;  // one of them in the same memory, in most rounds
          for (int i = 0; i < 8; ++i) next.push_back(full({1000}, 3));
          for (const Tensor& each : next) {
            if (each.bytes() == memory) ++reused;
            expect(
                each, 0, 1000, [](std::int64_t) { return 3; }, "what came next");
          }
        }
      },
      2);
  CHECK(reused > 0);
}

TEST_CASE("in one launch: the bits of ring and direct, and the bytes sent of their schedule") {
  if (!on_a_gpu()) return;
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct})
    for (const DType dtype : {DType::f32, DType::bf16})
      launch(
          [&](const Group& group) {
            const Tensor steps = fraction(group.rank(), dtype), once = steps.clone();
            const Group by_steps = group.subgroup({0, 1, 2}, {.algorithm = algorithm});
            by_steps.all_reduce(steps, ReduceOp::mean).wait();
            group.all_reduce(once, ReduceOp::mean).wait();
            expect_same_bits(once, steps, str(name(group.options().algorithm), ", ", dtype));
            RINGLET_CHECK_EQ(by_steps.stats().bytes_sent > 0, group.stats().bytes_sent > 0, "sent");
          },
          3,
          {.group = {.algorithm = algorithm == Algorithm::ring ? Algorithm::in_kernel_ring
                                                               : Algorithm::in_kernel_direct}});
}

TEST_CASE("in one launch on each of several GPUs: the bits of ring and direct") {
  if (!on_a_gpu() || !runs_across_gpus()) return;
  const int devices = backend(default_device().type).device_count();
  for (const Algorithm algorithm : {Algorithm::in_kernel_ring, Algorithm::in_kernel_direct})
    for (const int size : {3, 5})  // of five some share a GPU
      launch(
          [&](const Group& group) {
            const Device own{default_device().type, group.rank() % devices};
            std::vector<int> all(static_cast<std::size_t>(group.size()));
            std::iota(all.begin(), all.end(), 0);
            const Group by_steps = group.subgroup(all, {.algorithm = steps_of(algorithm)});
            for (const DType dtype : {DType::f32, DType::bf16}) {
              const Tensor steps = fraction(group.rank(), dtype).to(own), once = steps.clone();
              by_steps.all_reduce(steps, ReduceOp::mean).wait();
              group.all_reduce(once, ReduceOp::mean).wait();
              expect_same_bits(once, steps, str(name(algorithm), ", ", dtype));
              expect_same_halves(group, by_steps, fraction(group.rank(), dtype).to(own));
            }
          },
          size, {.group = {.algorithm = algorithm}});
}

TEST_CASE("automatic: in one launch on each GPU, after a first sum that has shown the GPUs") {
  if (!on_a_gpu() || backend(default_device().type).device_count() < 2) return;
  struct Used final : CollectiveObserver {
    void begins(const Collective& collective, const Membership& rank) override {
      if (rank.rank == 0) algorithms.push_back(collective.call.algorithm);
    }
    std::vector<Algorithm> algorithms;
  };
  for (const bool share : {false, true}) {
    Used used;
    const bool once = !share && runs_across_gpus();
    const Algorithm later = once ? Algorithm::in_kernel_direct : Algorithm::direct;
    launch(
        [&](const Group& group) {
          const Device own{default_device().type, share ? 0 : group.rank()};
          const Group by_steps = group.subgroup({0, 1}, {.algorithm = Algorithm::direct});
          CHECK(group.algorithm(own) == Algorithm::direct);
          CHECK(group.algorithm(Device{}) == Algorithm::direct);
          for (const DType dtype : {DType::f32, DType::bf16, DType::f32}) {
            const Tensor x = fraction(group.rank(), dtype).to(own), y = x.clone();
            const Work first = group.all_reduce(x, ReduceOp::mean);
            group.all_reduce(x, ReduceOp::mean).wait();  // planned before the first has run
            first.wait();
            for (int i = 0; i < 2; ++i) by_steps.all_reduce(y, ReduceOp::mean).wait();
            expect_same_bits(x, y, "automatic");
            CHECK(group.algorithm(own) == later);
          }
          if (group.rank() == 0) used.algorithms.clear();
          expect_same_halves(group, by_steps, fraction(group.rank(), DType::f32).to(own));
        },
        2, {.group = {.observer = &used}});
    CHECK(used.algorithms == std::vector{later, later, Algorithm::direct, Algorithm::direct});
  }
}

TEST_CASE("in one launch: GPUs without access to each other are refused") {
  const auto& gpus = backend(default_device().type);
  if (!on_a_gpu() || gpus.device_count() < 2 || runs_across_gpus()) return;
  const GroupOptions options{.algorithm = Algorithm::in_kernel_ring};
  CHECK_THROWS_WITH_AS(launch(
                           [](const Group& group) {
                             const Device own{default_device().type, group.rank()};
                             group.all_reduce(numbered(group.rank(), 100).to(own)).wait();
                           },
                           2, {.group = options}),
                       doctest::Contains("[all_reduce]"), Error);
}

TEST_CASE("tensors of a CPU and of a GPU do not meet in a collective") {
  if (!on_a_gpu()) return;
  const auto add_up = [](std::int64_t count) {
    launch(
        [&](const Group& group) {
          const Device own = group.rank() == 0 ? Device{} : default_device();
          group.all_reduce(numbered(group.rank(), count).to(own)).wait();
        },
        2, {.group = {.algorithm = Algorithm::direct}});
  };
  CHECK_THROWS_WITH_AS(add_up(100'000), doctest::Contains("'s tensor is on "), Error);
  // CPUs exchange a small buffer in one step.
  CHECK_THROWS_WITH_AS(add_up(100), doctest::Contains("or on another kind of device"), Error);
}

TEST_CASE("a collective between threads cannot be captured, and the group stays usable") {
  if (!has_graphs()) return;
  launch(
      [](const Group& group) {
        const Tensor x = numbered(group.rank(), 1000);
        group.barrier();  // no rank copies while rank 0 captures
        if (group.rank() == 0)
          CHECK_THROWS_WITH_AS(
              capture(default_device(), [&] { group.all_reduce(x); }),
              "[all_reduce] only collectives over nccl and of one launch (in-kernel "
              "algorithms) can be captured",
              Error);
        if (group.rank() == 0)
          CHECK_THROWS_WITH_AS(capture(default_device(), [&] { group.send(x, 1); }),
                               "[send] transfers cannot be captured", Error);
        group.barrier();
        group.all_reduce(x).wait();
        expect_sum(x, group.size(), "all_reduce");
      },
      2);
}

namespace {

/// Runs once the ranks have met before a replay.
struct Met final : ReplayObserver {
  void begin_replay() override {}
  void meet() override {
    if (then) then();
  }
  void end_replay() override {}
  std::function<void()> then = {};
};

/// A rank's tensor on a separate GPU, and its graph of three collectives, which leave it the sum.
struct LaunchGraph {
  explicit LaunchGraph(const Group& group)
      : device{default_device().type, group.rank()},
        x(zeros({1003}, DType::f32, device)),
        pieces(even_pieces(1003, group.size(), kPieceAlign)) {
    const Piece& mine = pieces[static_cast<std::size_t>(group.rank())];
    const Tensor part = x.slice(mine.offset, mine.offset + mine.count);
    const auto sum = [&] {
      group.all_reduce(x, ReduceOp::mean).wait();
      group.reduce_scatter(part, x, pieces).wait();
      group.all_gather(x, part, pieces).wait();
    };
    sum();
    graph = capture(device, [&] {
      sum();
      observe_replays(met);
    });
    group.barrier();
  }
  Device device;
  Tensor x;  // (1003)
  Pieces pieces;
  std::shared_ptr<Met> met = std::make_shared<Met>();
  std::unique_ptr<DeviceGraph> graph;
};

const GroupOptions kInKernel{.algorithm = Algorithm::in_kernel_direct};

}  // namespace

TEST_CASE("graphs of ranks with a GPU each sum in their launches, anew at every replay") {
  if (!has_graphs() || !runs_across_gpus()) return;
  for (const int size : {2, backend(default_device().type).device_count()})
    launch(
        [](const Group& group) {
          LaunchGraph own(group);
          const Tensor mine = numbered(group.rank(), 1003).to(own.device);
          const Tensor many = numbered(group.rank(), 2000).to(own.device);
          const GroupStats before = group.stats();
          for (int round = 0; round < 4; ++round) {
            own.x.copy_(mine);
            const Tensor y = many.clone();
            const Work work = group.all_reduce(y);  // the replay goes behind it
            own.graph->replay();
            work.wait();
            if (round == 2) group.barrier();
            const auto sum = [&](std::int64_t i) { return sum_over_ranks(group.size(), i); };
            expect(own.x, 0, 1003, sum, "replayed");
            expect(y, 0, 2000, sum, "called before");
          }
          const std::string inside =
              message_of([&] { capture(own.device, [&] { own.graph->replay(); }); });
          RINGLET_CHECK(inside.find("a replay") != inside.npos, inside);
          const GroupStats after = group.stats();
          // Four sums, a barrier, and a meeting before each replay.
          RINGLET_CHECK_EQ(after.collectives - before.collectives, std::uint64_t{9}, "called");
          RINGLET_CHECK(after.bytes_sent - before.bytes_sent > 4 * 3000 * sizeof(float) / 2,
                        after.bytes_sent - before.bytes_sent, " bytes sent, replays included");
        },
        size, {.group = kInKernel});
}

TEST_CASE("a launch is captured after one with the same memory, by ranks with a GPU each") {
  if (!has_graphs() || !runs_across_gpus()) return;
  for (const bool share : {false, true})
    launch(
        [&](const Group& group) {
          const Device own{default_device().type, share ? 0 : group.rank()};
          const Tensor x = numbered(group.rank(), 1000).to(own);
          // No rank enqueues anything while one captures. A barrier ends with a wait of the stream.
          const auto meet = [&] { group.all_gather_bytes(""); };
          meet();
          for (const bool again : {false, true}) {
            if (again) group.all_reduce(x.slice(0, 16)).wait();
            meet();
            for (int rank = 0; rank < group.size(); ++rank, meet())
              if (rank == group.rank())
                CHECK_THROWS_WITH_AS(
                    capture(own, [&] { group.all_reduce(again && share ? x.slice(0, 16) : x); }),
                    again && share
                        ? "[all_reduce] a rank that shares cuda:0 with another one "
                          "captures nothing"
                        : "[all_reduce] a captured launch takes the peers' buffers of an "
                          "earlier one with the same memory: run one before the capture",
                    Error);
          }
          group.all_reduce(x.slice(16, 1000)).wait();  // the group goes on
          expect(
              x, 16, 1000, [&](std::int64_t i) { return sum_over_ranks(group.size(), i); }, "sum");
        },
        2, {.group = kInKernel});
}

TEST_CASE("a rank that does not replay its launches ends the others' by the deadline") {
  if (!has_graphs() || !runs_across_gpus()) return;
  GroupOptions options = kInKernel;
  options.timeout = std::chrono::milliseconds(250);
  CHECK_THROWS_WITH_AS(launch(
                           [](const Group& group) {
                             const LaunchGraph own(group);
                             own.graph->replay();
                             own.x.to_vector();
                             while (group.rank() == 1 && !group.store().raised())
                               std::this_thread::sleep_for(std::chrono::milliseconds(1));
                             own.graph->replay();
                           },
                           2, {.group = options}),
                       doctest::Contains("rank 0 waited 0.25 s for rank 1"), Error);
}

TEST_CASE("a rank that fails before its launch in a replay ends the others', with the cause") {
  if (!has_graphs() || !runs_across_gpus()) return;
  const auto start = std::chrono::steady_clock::now();
  std::atomic<bool> replayed{false}, ended{false};
  CHECK_THROWS_WITH_AS(launch(
                           [&](const Group& group) {
                             const LaunchGraph own(group);
                             if (group.rank() == 1) {
                               own.met->then = [&] {
                                 while (!replayed) std::this_thread::yield();
                                 fail("rank 1's own error");
                               };
                             }
                             own.graph->replay();
                             replayed = true;
                             try {
                               own.x.to_vector();
                             } catch (const Error& error) {
                               ended = std::string(error.what()) ==
                                       "[all_reduce] ended, because a rank has failed";
                               throw;
                             }
                           },
                           2, {.group = kInKernel}),
                       "rank 1: rank 1's own error", Error);
  CHECK(ended);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

// The driver of the emulated GPUs makes an allocation wait for kernels of all of them, and launches
// for the allocation.
TEST_CASE("a rank allocates after another one's launch, and before its own") {
  if (!has_graphs() || !runs_across_gpus()) return;
  GroupOptions options = kInKernel;
  options.timeout = std::chrono::seconds(2);
  std::atomic<bool> replayed{false};
  launch(
      [&](const Group& group) {
        const auto allocate = [&](std::int64_t mebibytes) {
          empty({mebibytes << 20}, DType::u8, Device{default_device().type, group.rank()});
        };
        LaunchGraph own(group);
        own.x.copy_(numbered(group.rank(), 1003).to(own.device));
        std::thread other;
        if (group.rank() == 1) {
          // Its peer has come to the replay, and has to wait for it.
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          allocate(12);
          own.met->then = [&] {
            while (!replayed) std::this_thread::yield();
            other = std::thread([&] { allocate(16); });
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          };
        }
        own.graph->replay();
        replayed = true;
        if (other.joinable()) other.join();
        const auto sum = [&](std::int64_t i) { return sum_over_ranks(group.size(), i); };
        expect(own.x, 0, 1003, sum, "replayed");
        for (int round = 0; round < 8; ++round) {
          const Tensor x = numbered(group.rank(), 2000).to(own.device);
          const Work work = group.all_reduce(x);
          allocate(20 + 4 * round);  // while its thread launches
          work.wait();
          expect(x, 0, 2000, sum, "called");
        }
      },
      2, {.group = options});
}
