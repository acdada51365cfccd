#include "ringlet/comm/launch.h"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "ranks.h"
#include "ringlet/comm/membership.h"

using namespace ringlet;
using namespace ringlet::comm;

namespace {

using Clock = std::chrono::steady_clock;

/// The message of the Error that launch throws, well before `limit_s`.
std::string failure(const std::function<void(const Group&)>& rank_main, int n,
                    const GroupOptions& options = {}, double limit_s = 10) {
  const auto start = Clock::now();
  const std::string message = end_of_launch(rank_main, n, options);
  CHECK(std::chrono::duration<double>(Clock::now() - start).count() < limit_s);
  return message;
}

}  // namespace

TEST_CASE("every rank runs once, with its number") {
  std::mutex mutex;
  std::set<int> ranks;
  launch(
      [&](const Group& group) {
        RINGLET_CHECK_EQ(group.size(), 4, "size");
        const std::lock_guard lock(mutex);
        ranks.insert(group.rank());
      },
      4);
  CHECK(ranks == std::set<int>{0, 1, 2, 3});
  launch([](const Group& group) { RINGLET_CHECK_EQ(group.size(), 1, "size"); }, 1);
}

TEST_CASE("a rank that throws ends those that wait for it, and is named") {
  for (const TransportKind transport : transports())
    CHECK(failure(
              [](const Group& group) {
                Tensor x = zeros({100});
                group.all_reduce(x).wait();
                if (group.rank() == 1) fail("the disk is full");
                group.all_reduce(x).wait();
              },
              3, {.transport = transport}) == "rank 1: the disk is full");
}

TEST_CASE("bad input stays bad input") {
  CHECK_THROWS_WITH_AS(launch(
                           [](const Group& group) {
                             if (group.rank() == 1) fail_input("no such file");
                             group.barrier();
                           },
                           2),
                       "rank 1: no such file", InputError);
  // The alarm cuts a long cause.
  CHECK_THROWS_AS(launch([](const Group&) { fail_input(std::string(5000, '.')); }, 2), InputError);
}

TEST_CASE("a full store does not hide the first failure") {
  const auto fill_and_fail = [](const Group& group) {
    if (group.rank() == 0) return;
    for (std::size_t nbytes = std::size_t{64} << 20; nbytes > 0; nbytes /= 2) {
      try {
        group.store().set(str(nbytes), std::string(nbytes, '.'));
      } catch (const Error&) {  // half as many may still fit
      }
    }
    fail("the disk is full");
  };
  CHECK_THROWS_WITH_AS(launch(fill_and_fail, 2), "rank 1: the disk is full", Error);
}

TEST_CASE("ranks that call different collectives say what each of them called") {
  const auto message_when_rank_1 = [](const GroupOptions& options,
                                      const std::function<void(const Group&)>& calls) {
    return failure(
        [&](const Group& group) {
          group.barrier();
          if (group.rank() == 1) return calls(group);
          group.all_reduce(zeros({256})).wait();
        },
        2, options);
  };
  // Either of the two ranks may have detected it.
  const auto says = [](const std::string& message, const std::string& rank_1) {
    const std::string rank_0 = "all_reduce (f32, 256)";
    return message == "rank 1 called " + rank_1 + ", rank 0 " + rank_0 + ", collective 2" ||
           message == "rank 0 called " + rank_0 + ", rank 1 " + rank_1 + ", collective 2";
  };
  for (const TransportKind transport : transports())
    for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring}) {
      const GroupOptions options{.transport = transport, .algorithm = algorithm};
      std::string message = message_when_rank_1(options, [](const Group& group) {
        const Tensor x = zeros({256});
        group.all_gather(x, x.slice(128, 256), {{0, 128}, {128, 128}}).wait();
      });
      CHECK_MESSAGE(says(message, "all_gather (f32, 256)"), message);
      message = message_when_rank_1(
          options, [](const Group& group) { group.all_reduce(zeros({255})).wait(); });
      CHECK_MESSAGE(says(message, "all_reduce (f32, 255)"), message);
      message = message_when_rank_1(
          options, [](const Group& group) { group.all_reduce(zeros({256}, DType::i32)).wait(); });
      CHECK_MESSAGE(says(message, "all_reduce (i32, 256)"), message);
      message = message_when_rank_1(options, [](const Group& group) { group.barrier(); });
      CHECK_MESSAGE(says(message, "barrier"), message);
      message = message_when_rank_1(options, [](const Group& group) {
        group.all_reduce(zeros({256}), ReduceOp::max).wait();
      });
      CHECK_MESSAGE(message.find("max") != std::string::npos, message);
    }
}

TEST_CASE("ranks that broadcast from different roots, and pieces that differ") {
  const std::string roots =
      failure([](const Group& group) { group.broadcast(zeros({8}), group.rank()).wait(); }, 3);
  CHECK_MESSAGE(roots.find("root ") != std::string::npos, roots);
  CHECK_MESSAGE(roots.find("collective 1") != std::string::npos, roots);
  const std::string pieces = failure(
      [](const Group& group) {
        const std::int64_t cut = group.rank() == 0 ? 3 : 4;
        const Pieces mine = {{0, cut}, {cut, 8 - cut}};
        const Tensor x = zeros({8});
        const auto [offset, count] = mine[static_cast<std::size_t>(group.rank())];
        group.reduce_scatter(x.slice(offset, offset + count), x, mine).wait();
      },
      2);
  CHECK_MESSAGE(pieces.find("with other pieces") != std::string::npos, pieces);
}

TEST_CASE("a rank that skips a collective is found at the next that differs") {
  const std::string message = failure(
      [](const Group& group) {
        if (group.rank() != 1) group.all_reduce(zeros({64})).wait();
        group.broadcast(zeros({32})).wait();
      },
      3);
  CHECK_MESSAGE(message.find("broadcast (f32, 32)") != std::string::npos, message);
  CHECK_MESSAGE(message.find("all_reduce (f32, 64)") != std::string::npos, message);
}

TEST_CASE("a rank that does not come is named after the timeout") {
  for (const TransportKind transport : transports())
    for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring}) {
      const std::string message = failure(
          [](const Group& group) {
            group.barrier();
            while (group.rank() == 1 && !group.store().raised())
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            group.all_reduce(zeros({64})).wait();
          },
          3, {.transport = transport, .algorithm = algorithm, .timeout = std::chrono::seconds(1)},
          3);
      CHECK_MESSAGE(message.starts_with("[all_reduce] collective 2 (f32, 64), step "), message);
      CHECK_MESSAGE(message.find("waited 1 s for rank ") != std::string::npos, message);
      CHECK_MESSAGE(message.ends_with("ranks present: 0, 2; missing: 1"), message);
    }
}

TEST_CASE("where all ranks came and one goes no further, it is said how far each is") {
  for (const TransportKind kind : transports()) {
    if (kind == TransportKind::nccl) continue;  // its ranks meet over one of the other transports
    const auto store = make_memory_store();
    std::promise<std::string> said;
    const std::shared_future<std::string> message = said.get_future().share();
    const auto rank_main = [&](int rank) {
      const Membership member{store, rank, 3, std::chrono::seconds(1), "world"};
      TransportKind chosen = kind;
      const auto transport = make_transport(chosen, member);
      const Tensor x = zeros({4});
      const Transmission all{1, 0, x.nbytes()};
      transport->begin({.sequence = 1, .count = 4, .op = Op::broadcast, .dtype = DType::f32}, x);
      if (rank == 2) transport->finish();
      if (rank == 0) {
        try {
          transport->exchange({&all, 1}, {}, false);
          transport->release();
          transport->exchange({}, {&all, 1}, false);
          said.set_value("nothing failed");
        } catch (const Error& error) {
          said.set_value(error.what());
        }
      }
      message.wait();
      transport->abandon();
    };
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.emplace_back(rank_main, rank);
    for (std::thread& rank : ranks) rank.join();
    CHECK_EQ(message.get(),
             "[broadcast] collective 1 (f32, 4), step 1: rank 0 waited 1 s for rank 1; all ranks "
             "came; in step 0: 1; in step 1: 0; finished: 2");
  }
}

TEST_CASE("a rank that failed while it read keeps no other one waiting") {
  const auto store = make_memory_store();
  const auto make = [&](int rank) {
    return make_thread_transport({store, rank, 2, std::chrono::seconds(120), "world"});
  };
  auto making = std::async(std::launch::async, make, 1);
  const auto sender = make(0), reader = making.get();
  const Tensor x = zeros({4});
  const Call call{.sequence = 1, .count = 4, .op = Op::broadcast, .dtype = DType::f32};
  for (const auto& rank : {sender.get(), reader.get()}) rank->begin(call, x);
  const Transmission there{1, 0, x.nbytes()}, here{0, 0, x.nbytes()};
  const auto time_to_abandon = [&] {
    const auto start = Clock::now();
    sender->abandon();
    return Clock::now() - start;
  };
  sender->exchange({&there, 1}, {}, false);
  reader->exchange({}, {&here, 1}, false);
  reader->abandon();
  CHECK(time_to_abandon() < std::chrono::seconds(60));  // not after the timeout
  reader->begin(call, x);
  store->raise("over");
  CHECK_THROWS_WITH_AS(reader->exchange({}, {&here, 1}, false), "over", Error);
  CHECK(time_to_abandon() < std::chrono::seconds(60));  // not after the timeout
}

TEST_CASE("a rank that never joins is named, too") {
  const auto store = make_memory_store();
  CHECK_THROWS_WITH_AS(Group(store, 0, 2, {.timeout = std::chrono::milliseconds(150)}),
                       "[group] world: rank 0 waited 0.15 s for rank 1", Error);
}

TEST_CASE("after a failure every later collective fails at once with the same cause") {
  CHECK(failure(
            [](const Group& group) {
              if (group.rank() == 1) fail("first");
              for (int i = 0; i < 3; ++i) {
                std::string message;
                try {
                  group.all_reduce(zeros({10})).wait();
                } catch (const Error& error) {
                  message = error.what();
                }
                RINGLET_CHECK_EQ(message,
                                 str("rank 1: first; rank 0 was in [all_reduce] collective ", i + 1,
                                     " (f32, 10)"),
                                 "message");
              }
            },
            2) == "rank 1: first");
}

TEST_CASE("an error in a work without a wait ends the next collective") {
  const std::string message = failure(
      [](const Group& group) {
        group.all_reduce(zeros({group.rank() == 0 ? 10 : 20}));
        group.barrier();
      },
      2);
  CHECK_MESSAGE(message.find("collective 1") != std::string::npos, message);
}
