#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "environment.h"
#include "ranks.h"
#include "ringlet/comm/membership.h"
#include "ringlet/core/ops/elementwise.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;

namespace {

using Clock = std::chrono::steady_clock;

LaunchOptions processes(GroupOptions options = {}) {
  return {.ranks = Ranks::processes, .group = options};
}

/// The transports between processes, each with both algorithms.
std::vector<GroupOptions> process_settings() {
  std::vector<GroupOptions> all;
  for (const TransportKind transport : transports())
    for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring})
      if (transport != TransportKind::thread)
        all.push_back({.transport = transport,
                       .algorithm = algorithm,
                       .timeout = std::chrono::seconds(60),
                       .segment_bytes = transport == TransportKind::gloo ? 1 << 16 : 1024});
  return all;
}

std::string process_failure(const std::function<void(const Group&)>& rank_main, int n,
                            const GroupOptions& options) {
  const auto start = Clock::now();
  const std::string message = message_of([&] { launch(rank_main, n, processes(options)); });
  CHECK(Clock::now() - start < std::chrono::seconds(50));  // within the deadline of most
  return message;
}

/// All-reduces in a loop, until something happens to a rank.
void reduce_for_ever(const Group& group) {
  const Tensor x = zeros({5000});
  while (true) group.all_reduce(x).wait();
}

}  // namespace

TEST_CASE("processes share what they allocate, whatever the transport and the dtype") {
  for (const GroupOptions& options : process_settings())
    for (const int n : {1, 2, 4})
      launch(
          [](const Group& group) {
            for (const DType dtype : kDTypes)
              for (const std::int64_t count : {0, 1, 17, 3001}) {
                const Tensor x = numbered(group.rank(), count, dtype);
                group.all_reduce(x).wait();
                const int root = group.size() - 1;
                const auto summed = [&](std::int64_t i) { return sum_over_ranks(root + 1, i); };
                expect(x, 0, count, summed, str("all_reduce of ", count, " ", dtype));
                const Tensor sent = numbered(group.rank(), count, dtype);
                group.broadcast(sent, root).wait();
                const auto of_root = [&](std::int64_t i) { return element(root, i); };
                expect(sent, 0, count, of_root, str("broadcast of ", count, " ", dtype));
              }
          },
          n, processes(options));
}

TEST_CASE("automatic is shm among processes of one host, thread among threads") {
  for (const Ranks ranks : {Ranks::threads, Ranks::processes})
    launch(
        [&](const Group& group) {
          RINGLET_CHECK_EQ(name(group.transport({})), ranks == Ranks::threads ? "thread" : "shm",
                           "transport");
        },
        2, {.ranks = ranks});
  CHECK_THROWS_WITH_AS(
      launch([](const Group&) {}, 2, processes({.transport = TransportKind::thread})),
      doctest::Contains("the transport thread is for ranks of one process, which these are not"),
      InputError);
}

TEST_CASE("changes by ranks stay with them, also to tensors of the parent") {
  const Tensor inherited = full({100000}, 1);
  for (const GroupOptions& options : process_settings()) {
    launch(
        [&](const Group& group) {
          Tensor x = inherited;
          group.barrier();
          x.slice(0, 50000).fill_(10 * (group.rank() + 1));
          group.barrier();
          RINGLET_CHECK_EQ(x[7].item(), 10.f * static_cast<float>(group.rank() + 1), "own value");
          RINGLET_CHECK_EQ(x[99999].item(), 1.f, "inherited value");
          // Peers have no descriptor of it, but still get its bytes.
          group.all_reduce(x).wait();
          expect(
              x, 0, 100000, [](std::int64_t i) { return i < 50000 ? 60 : 3; }, "sum");
        },
        3, processes(options));
    CHECK(inherited[7].item() == 1);
    CHECK(inherited[99999].item() == 1);
  }
}

TEST_CASE("memory that is no tensor's own is sent as well") {
  launch(
      [](const Group& group) {
        std::vector<float> foreign(3000, static_cast<float>(group.rank() + 1));
        const Tensor x(std::make_shared<Storage>(reinterpret_cast<std::byte*>(foreign.data()),
                                                 foreign.size() * sizeof(float), Device{}, [] {}),
                       0, {3000}, DType::f32);
        group.all_reduce(x).wait();
        expect(
            x, 0, 3000, [](std::int64_t) { return 3; }, "sum");
        std::fill(foreign.begin(), foreign.end(), static_cast<float>(group.rank()));
        group.broadcast(x, 1).wait();
        expect(
            x, 0, 3000, [](std::int64_t) { return 1; }, "broadcast");
      },
      2, processes({.segment_bytes = 512}));
}

TEST_CASE("memory that is no tensor's own is sent in pieces, some of them empty") {
  launch(
      [](const Group& group) {
        std::vector<float> foreign(10);
        const auto fill = [&] {
          for (std::size_t i = 0; i < foreign.size(); ++i)
            foreign[i] = static_cast<float>(element(group.rank(), static_cast<std::int64_t>(i)));
        };
        fill();
        const Tensor x(std::make_shared<Storage>(reinterpret_cast<std::byte*>(foreign.data()),
                                                 foreign.size() * sizeof(float), Device{}, [] {}),
                       0, {10}, DType::f32);
        group.all_reduce(x).wait();  // one rank has all ten elements, and the others none
        expect(
            x, 0, 10, [](std::int64_t i) { return sum_over_ranks(3, i); }, "sum");
        fill();
        const Pieces pieces{{0, 4}, {4, 0}, {4, 6}};
        const auto [offset, count] = pieces[static_cast<std::size_t>(group.rank())];
        const Tensor mine = empty({count});
        group.scatter(mine, x, pieces).wait();
        expect(
            mine, 0, count, [&, from = offset](std::int64_t i) { return element(0, from + i); },
            "scatter");
      },
      3, processes());
}

TEST_CASE("forked ranks use threads of their own") {
  const Tensor before = add(full({1 << 20}, 1), full({1 << 20}, 2));  // the parent's threads run
  launch(
      [&](const Group& group) {
        const Tensor sum = add(before, full({1 << 20}, group.rank()));
        RINGLET_CHECK_EQ(sum[(1 << 20) - 1].item(), 3.f + static_cast<float>(group.rank()), "sum");
      },
      2, processes());
}

TEST_CASE("a rank that throws ends the others and is named; bad input stays bad input") {
  for (const GroupOptions& options : process_settings()) {
    CHECK(process_failure(
              [](const Group& group) {
                group.barrier();
                if (group.rank() == 1) fail("the disk is full");
                reduce_for_ever(group);
              },
              3, options) == "rank 1: the disk is full");
    CHECK_THROWS_WITH_AS(launch(
                             [](const Group& group) {
                               if (group.rank() == 0) fail_input("no such file");
                               group.barrier();
                             },
                             2, processes(options)),
                         "rank 0: no such file", InputError);
  }
}

TEST_CASE("a rank that is killed is named, and the others end and say where") {
  for (const GroupOptions& options : process_settings()) {
    const std::string message = process_failure(
        [](const Group& group) {
          for (int i = 0; i < 10; ++i) group.barrier();
          if (group.rank() == 2) kill(getpid(), SIGKILL);
          reduce_for_ever(group);
        },
        3, options);
    CHECK_MESSAGE(message.starts_with("rank 2 was killed by signal 9 (Killed); rank "), message);
    // Some ranks may still be in the last barrier.
    const bool says_where = message.ends_with(" was in [all_reduce] collective 11 (f32, 5000)") ||
                            message.ends_with(" was in [barrier] collective 10");
    CHECK_MESSAGE(says_where, message);
  }
}

TEST_CASE("a rank that leaves without a word is named, too") {
  const std::string message = process_failure(
      [](const Group& group) {
        group.barrier();
        if (group.rank() == 1) _exit(7);
        reduce_for_ever(group);
      },
      2, {});
  CHECK_MESSAGE(message.starts_with("rank 1 exited with code 7; rank 0 was in ["), message);
}

TEST_CASE("a rank that returns early ends the peers that wait for it, long before the timeout") {
  for (const Ranks ranks : {Ranks::threads, Ranks::processes})
    for (const TransportKind transport : transports())
      for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring}) {
        if (ranks == Ranks::processes && transport == TransportKind::thread) continue;
        CAPTURE(name(transport));
        const auto run = [&](bool peers_go_on) {
          launch(
              [&](const Group& group) {
                for (int i = 0; i < 2; ++i) group.all_reduce(zeros({1000})).wait();
                if (group.rank() == 1) return;
                if (peers_go_on) group.all_reduce(zeros({1000})).wait();
              },
              3,
              {.ranks = ranks,
               .group = {.transport = transport,
                         .algorithm = algorithm,
                         .timeout = std::chrono::seconds(60)}});
        };
        run(false);
        const auto start = Clock::now();
        std::string message;
        try {
          run(true);
        } catch (const Error& error) {
          message = error.what();
        }
        CHECK_MESSAGE(message.starts_with("[all_reduce] collective 3 (f32, 1000), step "), message);
        // The other one may still be in the second sum.
        const bool named =
            message.find(" waits for rank 1, which has left the group") != message.npos;
        CHECK_MESSAGE(named, message);
        CHECK(Clock::now() - start < std::chrono::seconds(50));
      }
}

TEST_CASE("a group may end on one rank while a peer is still making it") {
  for (const GroupOptions& options : process_settings())
    launch(
        [](const Group& group) {
          for (int i = 0; i < 20; ++i) group.subgroup({0, 1});
          const Tensor x = numbered(group.rank(), 100);  // the world still works
          group.all_reduce(x).wait();
          expect(
              x, 0, 100, [](std::int64_t i) { return element(0, i) + element(1, i); },
              "all_reduce");
        },
        2, processes(options));
}

#if defined(RINGLET_TESTS_GLOO)
TEST_CASE("gloo's own collectives with two sizes end with an error") {
  if (!has_gloo()) return;
  const std::string message = process_failure(
      [](const Group& group) {
        const Tensor x = zeros({group.rank() == 0 ? 4000 : 8000});
        for (int i = 0; i < 10; ++i) group.all_reduce(x).wait();
      },
      2,
      {.transport = TransportKind::gloo,
       .algorithm = Algorithm::native,
       .timeout = std::chrono::seconds(1)});
  CHECK_MESSAGE(message.find("[all_reduce] collective ") != message.npos, message);
}

TEST_CASE("ranks of one host take no address from the environment") {
  with_environment({{"MASTER_ADDR", "no.such.host.invalid"}}, [] {
    CHECK_NOTHROW(launch([](const Group& group) { group.barrier(); }, 2,
                         processes({.transport = TransportKind::gloo})));
  });
}
#endif

TEST_CASE("a rank that is stopped ends the others by the timeout, and is killed then") {
  for (const GroupOptions& options : process_settings()) {
    GroupOptions impatient = options;
    impatient.timeout = std::chrono::seconds(1);
    const std::string message = process_failure(
        [&](const Group& world) {
          const Group group = world.subgroup({0, 1, 2}, impatient);
          for (int i = 0; i < 10; ++i) group.barrier();
          if (group.rank() == 1) kill(getpid(), SIGSTOP);
          reduce_for_ever(group);
        },
        3, options);
    CHECK_MESSAGE(message.find("waited 1 s for rank ") != std::string::npos, message);
    CHECK_MESSAGE(message.starts_with("[all_reduce] collective 1"), message);
    CHECK_MESSAGE(message.ends_with("; ranks present: 0, 2; missing: 1"), message);
  }
}

TEST_CASE("nothing is left of ranks that were killed: no process, no descriptor") {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  process_failure(
      [](const Group& group) {
        group.barrier();
        if (group.rank() == 0) kill(getpid(), SIGKILL);
        reduce_for_ever(group);
      },
      3, {});
  const bool no_child = waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
  CHECK(no_child);
  CHECK_EQ(descriptors(), before);
}

TEST_CASE("ranks that find no thread to run on end those that have one") {
  constexpr int kNoLimit = 77;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The limit does not bind root. It changes to a user without other processes, also where
    // another program runs this test: this process and two ranks are allowed.
    const bool alone = geteuid() == 0;
    constexpr uid_t kUnused = 1 << 24;
    if (alone && setuid(kUnused + static_cast<uid_t>(getpid())) != 0) _exit(kNoLimit);
    const rlimit few{alone ? 3u : 1u, alone ? 3u : 1u};
    if (setrlimit(RLIMIT_NPROC, &few) != 0) _exit(kNoLimit);
    try {
      launch([](const Group& group) { group.barrier(); }, 8);
      _exit(1);
    } catch (const Error& error) {
      const std::string expected = alone ? "rank 2: " : "rank 0: ";
      _exit(std::string(error.what()).starts_with(expected + "cannot start a thread: Resource")
                ? 0
                : 2);
    }
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoLimit) {
    MESSAGE("skipped: needs a limit of processes");
  } else {
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_SUITE_END();
