// The transport nccl over tests/fake_nccl.h: the order of its calls to NCCL, and how groups over it
// end. Its sums are checked by tests/comm/group.cpp, on a delayed device.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>

#include "ranks.h"
#include "ringlet/comm/transports/nccl_communicator.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/device/stream.h"
#include "ringlet/cuda/shared_library.h"
#include "ringlet/tests/comm/environment.h"
#include "ringlet/tests/fake_nccl.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

constexpr Device kGpu{DeviceType::cuda, 0}, kOtherGpu{DeviceType::cuda, 1};

/// For a scope, tensors are made on a delayed device with NCCL.
struct Gpus {
  Gpus() { set_default_device(kGpu); }
  ~Gpus() { set_default_device(before); }
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  /// The message of the Error that launch throws.
  std::string failure(const std::function<void(const Group&)>& rank_main, int n,
                      GroupOptions options = {}) const {
    options.transport = TransportKind::nccl;
    return end_of_launch(rank_main, n, options);
  }
  void run(const std::function<void(const Group&)>& rank_main, int n,
           const GroupOptions& options = {}) const {
    CHECK_EQ(failure(rank_main, n, options), "");
  }
  /// A point of this thread's stream, held until let_go().
  streams::Point hold(Device on) {
    const std::lock_guard lock(device.scheduler().mutex());
    return device.scheduler().hold(*static_cast<streams::Stream*>(device.stream(on)));
  }
  void let_go(const streams::Point& held) {
    const std::lock_guard lock(device.scheduler().mutex());
    device.scheduler().let_go(*held);
  }
  void check_all_aborted(int ranks) const {
    CHECK(nccl.made() == ranks);
    CHECK(nccl.aborted() == ranks);
    CHECK(nccl.destroyed() == 0);
    CHECK(nccl.misused() == 0);
  }

  Device before = default_device();
  DelayedDevice device{7};
  FakeNccl nccl{device};
};

/// The notes of a group.
struct Notes {
  std::function<void(const std::string&)> taker() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(line);
    };
  }
  bool have(const std::string& line) const {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  }
  std::mutex mutex;
  std::vector<std::string> lines;
};

using Groups = std::vector<FakeNccl::Group>;
FakeNccl::Asked send(int peer, std::size_t nbytes) { return {"send", peer, nbytes}; }
FakeNccl::Asked receive(int peer, std::size_t nbytes) { return {"receive", peer, nbytes}; }

/// A rank's tensor on a separate GPU, and its graph of two collectives that sum it.
struct RankGraph {
  explicit RankGraph(const Group& group)
      : device{DeviceType::cuda, group.rank()}, x(zeros({1003}, DType::f32, device)) {
    const auto sum = [&] {
      group.all_reduce(x).wait();
      group.broadcast(x, 1).wait();
    };
    group.all_reduce(x).wait();  // makes the communicator
    graph = capture(device, sum);
    group.barrier();  // keeps other ranks' work on cuda:0 out of rank 0's graph
  }
  Device device;
  Tensor x;  // (1003)
  std::unique_ptr<DeviceGraph> graph;
};

/// Runs collectives until one fails, for at most a minute.
void go_on(const Group& group) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < end) group.all_reduce(zeros({100})).wait();
}

}  // namespace

TEST_CASE("nccl, ring: a step of a segment is one group, and segments take turns") {
  Gpus gpus;
  gpus.run([](const Group& group) { group.all_reduce(zeros({3 * 48})).wait(); }, 3,
           {.algorithm = Algorithm::ring, .segment_bytes = 128});
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank);
    const int next = (rank + 1) % 3, previous = (rank + 2) % 3;
    Groups expected;  // pieces of 48 elements are sent in segments of 16 and 32
    for (int step = 0; step < 4; ++step)
      for (const std::size_t nbytes : {64u, 128u})
        expected.push_back({send(next, nbytes), receive(previous, nbytes)});
    CHECK(gpus.nccl.groups(rank) == expected);
  }
}

TEST_CASE("nccl, direct: all sends and receives of a step are one group") {
  Gpus gpus;
  gpus.run([](const Group& group) { group.all_reduce(zeros({16 + 16 + 8})).wait(); }, 3,
           {.algorithm = Algorithm::direct});
  const auto bytes_of = [](int piece) -> std::size_t { return piece == 2 ? 32 : 64; };
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank);
    const int first = (rank + 1) % 3, second = (rank + 2) % 3;
    const std::size_t own = bytes_of(rank);
    CHECK(gpus.nccl.groups(rank) ==
          Groups{{send(first, bytes_of(first)), send(second, bytes_of(second)), receive(first, own),
                  receive(second, own)},
                 {send(first, own), send(second, own), receive(first, bytes_of(first)),
                  receive(second, bytes_of(second))}});
  }
}

TEST_CASE("nccl: long pieces go in four segments of 4 MiB or more, and nothing in no group") {
  Gpus gpus;
  gpus.run(
      [](const Group& group) {
        group.all_reduce(zeros({0})).wait();
        group.broadcast(zeros({9 << 20}, DType::u8)).wait();
        group.broadcast(zeros({40 << 20}, DType::u8)).wait();
      },
      2);
  std::vector<std::size_t> sent;
  for (const FakeNccl::Group& group : gpus.nccl.groups(0)) {
    REQUIRE(group.size() == 1);
    sent.push_back(group[0].nbytes);
  }
  const std::size_t mib = std::size_t{1} << 20;
  CHECK(sent == std::vector{9 * mib / 2, 9 * mib / 2, 10 * mib, 10 * mib, 10 * mib, 10 * mib});
}

TEST_CASE("nccl: one communicator for a group, made for its first tensor on a GPU") {
  Gpus gpus;
  gpus.run(
      [&](const Group& group) {
        const Tensor on_cpu = zeros({10}, DType::f32, Device{});
        group.all_reduce(on_cpu).wait();
        RINGLET_CHECK_EQ(gpus.nccl.made(), 0, "communicators for a tensor on a CPU");
        RINGLET_CHECK(group.transport(Device{}) == TransportKind::thread, "on a CPU");
        RINGLET_CHECK(group.transport(kGpu) == TransportKind::nccl, "on a GPU");
        group.barrier();
        for (int i = 0; i < 3; ++i) group.all_reduce(zeros({10})).wait();
        group.all_reduce(on_cpu).wait();
        group.barrier();
      },
      3);
  CHECK(gpus.nccl.made() == 3);
  CHECK(gpus.nccl.destroyed() == 3);
  CHECK(gpus.nccl.aborted() == 0);
  CHECK(gpus.nccl.misused() == 0);
}

TEST_CASE("nccl: ranks in one process are told once that kernels should be loaded before") {
  Gpus gpus;
  for (const char* loading : {"LAZY", "EAGER"}) {
    Notes notes;
    with_environment({{"CUDA_MODULE_LOADING", loading}},
                     [&] { gpus.run([](const Group&) {}, 3, {.on_note = notes.taker()}); });
    const auto& lines = notes.lines;
    REQUIRE(lines.size() == (loading == std::string("LAZY") ? 1 : 0));
    if (!lines.empty()) CHECK(lines[0].find("set CUDA_MODULE_LOADING=EAGER") != lines[0].npos);
  }
}

TEST_CASE("nccl: a group's tensors are on one GPU of each rank") {
  Gpus gpus;
  const std::string message = gpus.failure(
      [](const Group& group) {
        group.all_reduce(zeros({10})).wait();
        group.all_reduce(zeros({10}, DType::f32, kOtherGpu)).wait();
      },
      2);
  CHECK(message.find("[all_reduce] of a tensor on cuda:1 in a group whose tensors are on cuda:0") !=
        message.npos);
}

TEST_CASE("nccl: its own collectives give the same") {
  for (const int ranks : {1, 2, 3}) {
    Gpus gpus;
    gpus.run(
        [](const Group& group) {
          const int n = group.size();
          const auto mine = static_cast<std::size_t>(group.rank());
          const auto of = [](int rank) { return [=](std::int64_t i) { return element(rank, i); }; };
          const auto summed = [&](std::int64_t i) {
            int sum = 0;
            for (int rank = 0; rank < n; ++rank) sum += element(rank, i);
            return sum;
          };
          for (const DType dtype : kDTypes)
            for (const std::int64_t count : {0, 1, 100}) {
              const Tensor sum = numbered(group.rank(), count, dtype);
              group.all_reduce(sum).wait();
              expect(sum, 0, count, summed, "all_reduce");

              const Pieces even = even_pieces(count * n, n);
              const Tensor piece = empty({count}, dtype);
              group.reduce_scatter(piece, numbered(group.rank(), count * n, dtype), even).wait();
              const std::int64_t start = even[mine].offset;
              expect(
                  piece, 0, count, [&](std::int64_t i) { return summed(start + i); },
                  "reduce_scatter");

              Pieces uneven = even;
              uneven[0].count -= count > 1 ? 1 : 0;
              for (const Pieces& pieces : {even, uneven}) {
                const Tensor all = empty({count * n}, dtype);
                group.all_gather(all, numbered(group.rank(), pieces[mine].count, dtype), pieces)
                    .wait();
                for (int rank = 0; rank < n; ++rank) {
                  const auto [offset, length] = pieces[static_cast<std::size_t>(rank)];
                  expect(all.slice(offset, offset + length), 0, length, of(rank), "all_gather");
                }
              }
              const Tensor sent = numbered(group.rank(), count, dtype);
              group.broadcast(sent, n - 1).wait();
              expect(sent, 0, count, of(n - 1), "broadcast");
              group.barrier();
            }
        },
        ranks, {.algorithm = Algorithm::native});
    CHECK(gpus.nccl.misused() == 0);
  }
  Gpus gpus;
  const std::string message = gpus.failure(
      [](const Group& group) {
        const Pieces pieces{{0, 1}, {1, 3}};
        group.reduce_scatter(empty({group.rank() == 0 ? 1 : 3}), zeros({4}), pieces).wait();
      },
      2, {.algorithm = Algorithm::native});
  CHECK(message.find("[reduce_scatter] NCCL's own takes equal pieces end to end: choose ring or "
                     "direct") != message.npos);
}

TEST_CASE("nccl: ranks that call different collectives learn it before NCCL hangs") {
  Gpus gpus;
  const std::string message = gpus.failure(
      [](const Group& group) {
        group.all_reduce(zeros({10})).wait();
        if (group.rank() == 1)
          return group.all_gather(empty({128}), zeros({64}), even_pieces(128, 2)).wait();
        group.all_reduce(zeros({256})).wait();
      },
      2);
  CHECK(message.find("all_gather (f32, 128)") != message.npos);
  CHECK(message.find("all_reduce (f32, 256)") != message.npos);
  CHECK(message.find("called") != message.npos);
  CHECK(message.ends_with(", collective 2"));
  gpus.check_all_aborted(2);
}

TEST_CASE("nccl: a rank that ends, ends the others' work on their GPUs") {
  Gpus gpus;
  CHECK(gpus.failure(
            [](const Group& group) {
              Tensor x = zeros({100});
              group.all_reduce(x).wait();
              if (group.rank() == 1) fail("the disk is full");
              go_on(group);
            },
            3) == "rank 1: the disk is full");
  gpus.check_all_aborted(3);
  CHECK(gpus.nccl.misused() == 0);
}

TEST_CASE("nccl: a rank that returns early ends its peers before its communicator has ended") {
  Gpus gpus;
  Notes notes;
  gpus.nccl.hold_up_ends(3s);
  std::atomic<bool> before_the_end{true};
  const std::string message = gpus.failure(
      [&](const Group& group) {
        group.all_reduce(zeros({100})).wait();
        if (group.rank() == 1) return;
        try {
          go_on(group);
        } catch (const Error&) {
          const std::lock_guard lock(notes.mutex);
          if (notes.have("[group] world: the end of rank 1's communicator on cuda:0: "
                         "ncclCommDestroy has not come back in 3 s: left behind"))
            before_the_end = false;
          throw;
        }
      },
      3, {.timeout = 60s, .on_note = notes.taker()});
  // Rank 0 or rank 2 may notice first, at its own step.
  CHECK_MESSAGE(message.starts_with("[all_reduce] collective 2 (f32, 100), step "), message);
  CHECK_MESSAGE(message.ends_with(" waits for rank 1, which has left the group"), message);
  CHECK(before_the_end);
}

TEST_CASE("nccl: what fails on one GPU ends all ranks, with the collective") {
  Gpus gpus;
  const std::string message = gpus.failure(
      [&](const Group& group) {
        group.all_reduce(zeros({100})).wait();
        group.barrier();
        if (group.rank() == 1) gpus.nccl.fail_on_device(1);
        go_on(group);
      },
      3);
  CHECK(message.starts_with("[all_reduce] collective "));
  CHECK(message.find("(f32, 100): NCCL on rank 1: remote process exited") != message.npos);
  gpus.check_all_aborted(3);
}

TEST_CASE("nccl: the watchdog reports a failure without a call") {
  Gpus gpus;
  const std::string message = gpus.failure(
      [&](const Group& group) {
        group.all_reduce(zeros({100})).wait();
        group.barrier();
        if (group.rank() == 1) gpus.nccl.fail_on_device(1);
        const auto end = std::chrono::steady_clock::now() + 20s;
        while (!group.store().raised() && std::chrono::steady_clock::now() < end)
          std::this_thread::sleep_for(1ms);
        group.all_reduce(zeros({100})).wait();
      },
      2);
  CHECK(message.starts_with(
      "[all_reduce] collective 1 (f32, 100): NCCL on rank 1: remote process exited"));
  gpus.check_all_aborted(2);
}

TEST_CASE("nccl: a collective that its GPU does not end ends by the deadline") {
  Gpus gpus;
  gpus.nccl.lose_sends_of(0);
  const auto start = std::chrono::steady_clock::now();
  const std::string message = gpus.failure(
      [](const Group& group) {
        const Tensor x = zeros({100});
        group.all_reduce(x).wait();
        x.to_vector();  // waits for the GPU until the watchdog aborts its work
        group.all_reduce(x).wait();
      },
      2, {.timeout = 1s});
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(message.starts_with("[all_reduce] collective 1 (f32, 100): rank "));
  CHECK(message.find(" waited 1 s for cuda:0 to end it; all ranks came") != message.npos);
  CHECK((1s <= took && took < 60s));
  gpus.check_all_aborted(2);
}

TEST_CASE("nccl: a group's first collective is not captured, and the group goes on") {
  Gpus gpus;
  std::atomic<int> refused{0};
  gpus.run(
      [&](const Group& group) {
        const Device own{DeviceType::cuda, group.rank()};
        const Tensor x = full({100}, 1, DType::f32, own);
        try {
          capture(own, [&] { group.all_reduce(x).wait(); });
        } catch (const Error& error) {
          refused += std::string(error.what()) ==
                     "[all_reduce] the group's first collective of tensors on a GPU makes its "
                     "communicator, which cannot be captured: run one before the capture";
        }
        group.barrier();
        group.all_reduce(x).wait();
        const auto graph = capture(own, [&] { group.all_reduce(x).wait(); });
        graph->replay();
        expect(
            x, 0, 100, [](std::int64_t) { return 4; }, "summed twice");
      },
      2);
  CHECK(refused == 2);
}

TEST_CASE("nccl: a capture begins while its GPU waits for a peer's part of a collective") {
  Gpus gpus;
  const Tensor x = zeros({100});
  empty({1 << 20});  // cached memory, which the capture returns
  const streams::Point held = gpus.hold(kGpu);
  const auto peer = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(50ms);
    std::unique_lock lock(gpus.device.scheduler().mutex(), std::defer_lock);
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!lock.try_lock() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(1ms);
    CHECK(lock.owns_lock());
    gpus.device.scheduler().let_go(*held);
  });
  const auto graph = capture(kGpu, [&] { Tensor(x).fill_(3); });
  graph->replay();
  expect(
      x, 0, 100, [](std::int64_t) { return 3; }, "replayed");
}

TEST_CASE("nccl: a captured collective's own memory is not given out again before its wait") {
  for (const DType dtype : {DType::f32, DType::bf16}) {  // bf16 takes the ring in f32
    Gpus gpus;
    gpus.run(
        [&](const Group& group) {
          const Device own{DeviceType::cuda, group.rank()};
          const Tensor a = full({500}, 1, dtype, own), b = full({700}, 1, dtype, own);
          const auto sum = [&] { return group.all_reduce(std::vector{a, b}); };
          sum().wait();
          const auto graph = capture(own, [&] {
            const Work work = sum();
            for (const DType other : {DType::f32, DType::bf16}) full({1200}, 9, other, own);
            work.wait();
          });
          for (int i = 0; i < 6; ++i) graph->replay();
          expect(
              a, 0, 500, [](std::int64_t) { return 128; }, "summed seven times");
          expect(
              b, 0, 700, [](std::int64_t) { return 128; }, "summed seven times");
        },
        2, {.algorithm = Algorithm::ring});
  }
}

TEST_CASE("nccl: graphs of ranks with a GPU each sum anew at every replay") {
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::native}) {
    Gpus gpus;
    gpus.run(
        [&](const Group& group) {
          RankGraph own(group);
          const Tensor mine = numbered(group.rank(), 1003).to(own.device);
          group.barrier();  // from here on the stream of cuda:0 is rank 0's
          for (int round = 0; round < 3; ++round) {
            own.x.copy_(mine);
            own.graph->replay();
            const auto sum = [&](std::int64_t i) { return sum_over_ranks(group.size(), i); };
            expect(own.x, 0, 1003, sum, "replayed");
            group.all_reduce(own.x).wait();  // also uncaptured between replays
          }
        },
        3, {.algorithm = algorithm, .segment_bytes = 512});
    CHECK(gpus.nccl.destroyed() == 3);
    CHECK(gpus.nccl.misused() == 0);
  }
}

TEST_CASE("nccl: a replay goes behind the collectives that were called before it") {
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::native}) {
    Gpus gpus;
    gpus.run(
        [&](const Group& group) {
          RankGraph own(group);
          const Tensor mine = numbered(group.rank(), 1003).to(own.device);
          const Tensor many = numbered(group.rank() + 3, 2000).to(own.device), y = many.clone();
          group.barrier();
          for (int round = 0; round < 9; ++round) {
            own.x.copy_(mine);
            Tensor(y).copy_(many);
            // Until this rank calls, its peers' collectives are queued.
            if (group.rank() == round % 3) std::this_thread::sleep_for(10ms);
            const Work work = group.all_reduce(y);
            own.graph->replay();
            work.wait();
            const auto sum = [&](std::int64_t i) { return sum_over_ranks(3, i); };
            expect(own.x, 0, 1003, sum, "replayed");
            const auto rest = [&](std::int64_t i) { return sum_over_ranks(6, i) - sum(i); };
            expect(y, 0, 2000, rest, "called before");
          }
        },
        3, {.algorithm = algorithm, .segment_bytes = 512});
    CHECK(gpus.nccl.groups(0).size() == gpus.nccl.groups(1).size());
    CHECK(gpus.nccl.misused() == 0);
  }
}

TEST_CASE("nccl: a replay waits on the device for what other streams were given before") {
  Gpus gpus;
  gpus.run(
      [&](const Group& group) {
        const RankGraph own(group);
        const Tensor y = zeros({100}, DType::f32, own.device);
        const SideStream beside(own.device);
        streams::Point held;
        Work work;
        {
          const StreamGuard on(beside);
          held = gpus.hold(own.device);
          work = group.all_reduce(y);
        }
        own.graph->replay();
        const StreamEvent replayed(own.device);
        replayed.record();
        const auto end = std::chrono::steady_clock::now() + 200ms;
        while (std::chrono::steady_clock::now() < end && !replayed.done())
          std::this_thread::yield();
        const bool waited = !replayed.done();
        group.barrier();
        gpus.let_go(held);
        RINGLET_CHECK(waited, "the replay has not waited");
        work.wait();
        own.x.to_vector();
      },
      2);
}

TEST_CASE("nccl: a rank that does not replay its graph ends the others' by the deadline") {
  Gpus gpus;
  const auto start = std::chrono::steady_clock::now();
  const std::string message = gpus.failure(
      [](const Group& group) {
        const RankGraph own(group);
        own.graph->replay();
        while (group.rank() == 1 && !group.store().raised()) std::this_thread::sleep_for(1ms);
        own.graph->replay();
        own.x.to_vector();  // waits for the GPU until the watchdog aborts its work
        own.graph->replay();
      },
      3, {.timeout = 1s});
  const auto took = std::chrono::steady_clock::now() - start;
  CAPTURE(message);
  CHECK(
      message.starts_with("[graph] replay 2, of [all_reduce] collective 2 (f32, 1003) and 1 more: "
                          "rank "));
  CHECK(message.find(" to end it; ranks present: 0, 2; missing: 1") != message.npos);
  CHECK((1s <= took && took < 60s));
  gpus.check_all_aborted(3);
}

TEST_CASE("nccl: a rank that returns early ends its peers' replays, long before the timeout") {
  Gpus gpus;
  const auto start = std::chrono::steady_clock::now();
  const std::string message = gpus.failure(
      [](const Group& group) {
        const RankGraph own(group);
        const int replays = group.rank() == 1 ? 3 : 4;
        for (int i = 0; i < replays; ++i) own.graph->replay();
        own.x.to_vector();  // waits for the GPU, until the watchdog ends its work
        if (group.rank() != 1) own.graph->replay();
      },
      3, {.timeout = 60s});
  CHECK_MESSAGE(
      message.starts_with("[graph] replay 4, of [all_reduce] collective 2 (f32, 1003) and "
                          "1 more: rank "),
      message);
  CHECK_MESSAGE(message.ends_with(" waits for rank 1, which has left the group"), message);
  CHECK(std::chrono::steady_clock::now() - start < 50s);
}

TEST_CASE("nccl: what fails in a replay ends all ranks, and is said at the next one") {
  Gpus gpus;
  const std::string message = gpus.failure(
      [&](const Group& group) {
        const RankGraph own(group);
        own.graph->replay();
        own.x.to_vector();  // nothing earlier is in flight, which the message would name instead
        group.barrier();
        if (group.rank() == 1) gpus.nccl.fail_on_device(1);
        const auto end = std::chrono::steady_clock::now() + 20s;
        while (std::chrono::steady_clock::now() < end) {
          own.graph->replay();
          own.x.to_vector();
        }
      },
      2);
  CAPTURE(message);
  CHECK(message.starts_with("[graph] replay "));
  CHECK(message.find("NCCL on rank 1: remote process exited") != message.npos);
  gpus.check_all_aborted(2);
}

TEST_CASE("nccl: work that a collective waits for on its own rank is no delay of a peer") {
  Gpus gpus;
  gpus.run(
      [&](const Group& group) {
        const Tensor x = zeros({100});
        const auto later = std::async(std::launch::async, [&, held = gpus.hold(kGpu)] {
          std::this_thread::sleep_for(2s);
          gpus.let_go(held);
        });
        group.all_reduce(x).wait();
        x.to_vector();
        group.all_reduce(x).wait();
      },
      2, {.timeout = 1s});
  CHECK(gpus.nccl.aborted() == 0);
}

TEST_CASE("nccl: a communicator that is not made in time is given up") {
  Gpus gpus;
  gpus.nccl.never_finish();
  const std::string message = gpus.failure(
      [](const Group& group) { group.all_reduce(zeros({100})).wait(); }, 2, {.timeout = 1s});
  CHECK(message.starts_with("[group] world: a communicator on cuda:0: rank "));
  CHECK(message.find(" waited 1 s for NCCL") != message.npos);
  gpus.check_all_aborted(2);
}

TEST_CASE("nccl: an error says which call's it is") {
  Gpus gpus;
  gpus.nccl.refuse_to_make();
  const std::string message =
      gpus.failure([](const Group& group) { group.all_reduce(zeros({100})).wait(); }, 2);
  CAPTURE(message);
  CHECK(message.starts_with("[group] world: a communicator on cuda:0: NCCL on rank "));
  CHECK(message.find(": invalid usage (") != message.npos);
  CHECK(message.find("nccl_communicator.cpp:") != message.npos);
}

TEST_CASE("nccl: a group of calls that NCCL does not begin is an error") {
  Gpus gpus;
  gpus.nccl.refuse_groups();
  const std::string message =
      gpus.failure([](const Group& group) { group.all_reduce(zeros({100})).wait(); }, 2);
  CAPTURE(message);
  CHECK(message.starts_with("[all_reduce] collective 1 (f32, 100): NCCL on rank "));
  CHECK(message.find(": invalid usage (") != message.npos);
}

TEST_CASE("nccl: a wait beyond the timeout at the end aborts, and says so") {
  Gpus gpus;
  Notes notes;
  const auto start = std::chrono::steady_clock::now();
  gpus.run(
      [&](const Group& group) {
        const Tensor x = zeros({100});
        group.all_reduce(x).wait();
        x.to_vector();
        group.barrier();
        if (group.rank() == 0) gpus.nccl.never_finish();
        group.barrier();
      },
      2, {.timeout = 1s, .on_note = notes.taker()});
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK((1s <= took && took < 60s));
  gpus.check_all_aborted(2);
  for (const int rank : {0, 1})
    CHECK(notes.have(str("[group] world: the end of rank ", rank, "'s communicator on cuda:0: ",
                         "ncclCommFinalize has not come to its end in 1 s: aborted")));
}

TEST_CASE("nccl: a finalize that does not return does not delay the peers") {
  for (const bool fails : {false, true}) {
    Gpus gpus;
    Notes notes;
    gpus.nccl.hold_up_ends(100ms);
    const auto start = std::chrono::steady_clock::now();
    const std::string message = gpus.failure(
        [&](const Group& group) {
          group.all_reduce(zeros({100})).wait();
          group.barrier();
          if (fails && group.rank() == 1) gpus.nccl.fail_on_device(1);
          if (fails) go_on(group);
        },
        2, {.on_note = notes.taker()});
    const auto took = std::chrono::steady_clock::now() - start;
    CAPTURE(message);
    CHECK(message.empty() == !fails);
    CHECK(took < 60s);
    for (const int rank : {0, 1})
      CHECK(notes.have(str("[group] world: the end of rank ", rank, "'s communicator on cuda:0: ",
                           fails ? "ncclCommAbort" : "ncclCommDestroy",
                           " has not come back in 0.1 s: left behind")));
    while (gpus.nccl.aborted() + gpus.nccl.destroyed() < 2) std::this_thread::yield();
    CHECK(gpus.nccl.aborted() == (fails ? 2 : 0));
  }
}

TEST_CASE("nccl: the program's exit waits for a communicator that was left behind") {
  static auto* ended = static_cast<std::atomic<bool>*>(mmap(nullptr, sizeof(std::atomic<bool>),
                                                            PROT_READ | PROT_WRITE,
                                                            MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  static std::atomic<bool> exits{false};
  static NcclFunctions functions{};
  functions.ncclCommAbort = [](ncclComm_t) {
    while (!exits) std::this_thread::yield();
    *ended = true;
    return ncclSuccess;
  };
  std::cout.flush();  // otherwise the child writes it, too
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    set_nccl(&functions);
    functions.patience = 1ms;
    {
      NcclHandle handle(Device{}, [](const std::string&) {});
      handle.own(reinterpret_cast<ncclComm_t>(&functions));
    }
    std::atexit([] {
      functions.patience = 60s;
      exits = true;
    });
    std::exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
  CHECK(*ended);
}

TEST_CASE("nccl: a library that is too old is refused in one line") {
  CHECK_THROWS_WITH_AS(cuda::check_nccl_version(21805),
                       "[nccl] the library here is 2.18.5; 2.19.0 or newer is needed", Error);
  CHECK_NOTHROW(cuda::check_nccl_version(22809));
}

TEST_SUITE_END();
