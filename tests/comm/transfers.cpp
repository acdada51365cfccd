// Point to point, and the collectives that move pieces without a sum.
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "ringlet/comm/group.h"
#include "settings.h"
#include "tcp_job.h"

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

void expect_from(int rank, const Tensor& actual, std::int64_t offset, const std::string& what) {
  expect(
      actual, 0, actual.numel(), [&](std::int64_t i) { return element(rank, offset + i); }, what);
}

bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != text.npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace

TEST_CASE("gather, then scatter, from and to every root: pieces of any size") {
  for (const Setting& setting : settings({Algorithm::direct}))
    with_ranks(setting, [](const Group& group) {
      const int n = group.size(), rank = group.rank();
      for (const DType dtype : kDTypes)
        for (const std::int64_t unit : {0, 1, 50})
          for (int root = 0; root < n; ++root) {
            const Pieces pieces = uneven_pieces(n, unit);
            const std::int64_t count = pieces[static_cast<std::size_t>(rank)].count;
            const std::string what = str(dtype, ", unit ", unit, ", root ", root);
            const bool at_root = rank == root;
            const Tensor all = at_root ? full({end_of(pieces) + 2}, 3, dtype) : Tensor();
            group.gather(all, numbered(rank, count, dtype), pieces, root).wait();
            for (int peer = 0; at_root && peer < n; ++peer) {
              const auto [begin, size] = pieces[static_cast<std::size_t>(peer)];
              expect_from(peer, all.slice(begin, begin + size), 0, "gather, " + what);
            }
            if (at_root)  // what follows the pieces is unchanged
              expect(
                  all, end_of(pieces), end_of(pieces) + 2, [](std::int64_t) { return 3; }, what);
            const Tensor back = empty({count}, dtype);
            group.scatter(back, all, pieces, root).wait();
            expect_from(rank, back, 0, "scatter, " + what);
          }
    });
}

TEST_CASE("all_to_all: row p is my piece of rank p's input") {
  for (const Setting& setting : settings({Algorithm::direct}))
    with_ranks(setting, [](const Group& group) {
      const int n = group.size(), rank = group.rank();
      for (const DType dtype : kDTypes)
        for (const std::int64_t unit : {0, 1, 50}) {
          const Pieces pieces = uneven_pieces(n, unit);
          const auto [offset, count] = pieces[static_cast<std::size_t>(rank)];
          const Tensor rows = empty({n, count}, dtype);
          group.all_to_all(rows, numbered(rank, end_of(pieces), dtype), pieces).wait();
          for (int peer = 0; peer < n; ++peer)
            expect_from(peer, rows[peer], offset, str("all_to_all, ", dtype, ", unit ", unit));
        }
    });
}

TEST_CASE("the sum of all_to_all's rows is what reduce_scatter gives") {
  launch(
      [](const Group& group) {
        const Pieces pieces = uneven_pieces(group.size(), 50);
        const std::int64_t count = pieces[static_cast<std::size_t>(group.rank())].count;
        const Tensor input = numbered(group.rank(), end_of(pieces));
        const Tensor rows = empty({group.size(), count}), sum = empty({count});
        group.all_to_all(rows, input, pieces).wait();
        group.reduce_scatter(sum, input, pieces).wait();
        expect_same_bits(ringlet::sum(rows, {0}), sum, "sums");
      },
      4);
}

TEST_CASE("transfers of a pair and direction arrive in their order; either end may come first") {
  for (const Setting& setting : settings({Algorithm::direct})) {
    if (setting.ranks == 1) continue;
    with_ranks(setting, [](const Group& group) {
      const int n = group.size(), rank = group.rank();
      const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
      std::vector<Work> sends, receives;
      std::vector<Tensor> received;
      for (const std::int64_t count : {1000, 0, 1, 300}) received.push_back(empty({count}));
      const auto send = [&] {
        for (const Tensor& tensor : received)
          sends.push_back(group.send(numbered(rank, tensor.numel()), next));
      };
      if (rank % 2 == 0) send();
      for (const Tensor& tensor : received) receives.push_back(group.recv(tensor, previous));
      if (rank % 2 == 1) send();
      // Collectives are not ordered with transfers.
      const Tensor sum = numbered(rank, 100);
      group.all_reduce(sum).wait();
      for (std::size_t i = received.size(); i-- > 0;) {
        receives[i].wait();
        expect_from(previous, received[i], 0, str("transfer ", i));
      }
      for (const Work& work : sends) work.wait();
    });
  }
}

TEST_CASE("two ranks that first wait for what they receive, and send before: no deadlock") {
  for (const TransportKind transport : transports())
    launch(
        [](const Group& group) {
          const int peer = 1 - group.rank();
          for (int round = 0; round < 20; ++round) {
            const Tensor mine = numbered(group.rank(), 500), theirs = empty({500});
            const Work send = group.send(mine, peer);
            group.recv(theirs, peer).wait();
            expect_from(peer, theirs, 0, "transfer");
            send.wait();
          }
        },
        2, {.group = {.transport = transport}});
}

TEST_CASE("a tensor that is only sent keeps its version; a received one has a new one at once") {
  launch(
      [](const Group& group) {
        const Tensor x = numbered(group.rank(), 8);
        const auto before = x.version();
        const Work work = group.rank() == 0 ? group.send(x, 1) : group.recv(x, 0);
        RINGLET_CHECK((x.version() == before) == (group.rank() == 0), "version");
        work.wait();
        RINGLET_CHECK_EQ(group.stats().collectives, 1u, "transfers");
        RINGLET_CHECK_EQ(group.stats().bytes_sent, group.rank() == 0 ? 32u : 0u, "bytes");
      },
      2);
}

TEST_CASE("a transfer that no peer meets ends all ranks, and names both ends") {
  for (const TransportKind transport : transports()) {
    const auto error = [&](int receives, bool rank_1_stays) {
      return end_of_launch(
          [&](const Group& group) {
            for (int i = 0; group.rank() == 2 && i <= receives; ++i)
              group.send(zeros({4}), 1).wait();
            if (group.rank() != 1) return;
            for (int i = 0; i < receives; ++i) group.recv(empty({4}), 2).wait();
            while (rank_1_stays && !group.store().raised())
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
          },
          3, {.transport = transport, .timeout = std::chrono::seconds(1)});
    };
    CHECK(contains(error(0, true), "[group] world/2>1: rank 2 waited 1 s for rank 1"));
    const std::string second = error(1, true);
    CHECK(contains(second, "[send] collective 2 (f32, 4), step "));
    CHECK(contains(second, "rank 2 waited 1 s for rank 1; ranks present: 2; missing: 1"));
    CHECK(contains(error(1, false), "rank 2 waits for rank 1, which has left the group"));
  }
}

TEST_CASE("a rank that throws with a transfer in flight ends its peers at once") {
  for (const bool in_subgroup : {false, true}) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string error = end_of_launch(
        [&](const Group& world) {
          const Group group = in_subgroup ? world.subgroup({0, 1}) : world;
          const Work never = group.recv(empty({4}), 1 - world.rank());
          if (world.rank() == 1) fail("the disk is full");
          never.wait();
        },
        2, {.timeout = std::chrono::seconds(60)});
    CHECK(contains(error, "rank 1: the disk is full"));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(50));
  }
}

TEST_CASE("in a subgroup, transfers of several tags; messages name the ranks of the world") {
  const std::string differs = end_of_launch(
      [](const Group& world) {
        const Group pair = world.subgroup({1, 3});
        if (world.rank() != 1 && world.rank() != 3) return;
        const bool sends = world.rank() == 3;
        Tensor a = full({2}, sends ? 1 : 0), b = full({2}, sends ? 2 : 0);
        // The second tag may be sent first.
        const Work first = sends ? pair.send(b, 0, 1) : pair.recv(a, 1, 0);
        (sends ? pair.send(a, 0, 0) : pair.recv(b, 1, 1)).wait();
        first.wait();
        expect(
            a, 0, 2, [](std::int64_t) { return 1; }, "tag 0");
        expect(
            b, 0, 2, [](std::int64_t) { return 2; }, "tag 1");
        (sends ? pair.send(zeros({4}), 0) : pair.recv(zeros({5}), 1)).wait();
      },
      4, {});
  CHECK(contains(differs, "rank 3 called send (f32, 4), rank 1 send (f32, 5), collective 2"));
}

TEST_CASE("transfers that differ, and those that no rank can make") {
  const std::string differs = end_of_launch(
      [](const Group& group) {
        if (group.rank() == 1) group.send(zeros({4}), 2).wait();
        if (group.rank() == 2) group.recv(zeros({5}), 1).wait();
      },
      3, {});
  CHECK(contains(differs, "rank 1 called send (f32, 4), rank 2 send (f32, 5), collective 1"));
  const Group alone;
  CHECK_THROWS_WITH_AS(alone.send(zeros({1}), 0), "[send] from rank 0 to rank 0 of 1", Error);
  CHECK_THROWS_AS(alone.recv(Tensor(), 0), Error);
  CHECK_THROWS_WITH_AS(alone.gather(zeros({1}), zeros({1}), {{0, 1}}, 1),
                       "[gather] from rank 1 of 1", Error);
  CHECK_THROWS_AS(alone.scatter(zeros({2}), zeros({1}), {{0, 1}}), Error);
  CHECK_THROWS_AS(alone.all_to_all(zeros({2, 1}), zeros({1}), {{0, 1}}), Error);
}

TEST_CASE("a receive from any rank: sender() names the peers that send, each send once") {
  for (const Setting& setting : settings({Algorithm::direct})) {
    if (setting.transport == TransportKind::gloo) continue;
    with_ranks(setting, [](const Group& group) {
      constexpr int kSends = 3;
      if (group.rank() > 0) {
        for (int i = 0; i < kSends; ++i)
          group.send(numbered(group.rank(), 5, DType::f32), 0).wait();
        return;
      }
      std::vector<int> sends(static_cast<std::size_t>(group.size()), 0);
      for (int i = 0; i < kSends * (group.size() - 1); ++i) {
        std::optional<int> peer;
        while (!(peer = group.sender())) std::this_thread::yield();
        Tensor received = empty({5});
        group.recv(received, *peer).wait();
        expect_from(*peer, received, 0, str("from rank ", *peer));
        ++sends[static_cast<std::size_t>(*peer)];
      }
      for (int peer = 1; peer < group.size(); ++peer)
        RINGLET_CHECK_EQ(sends[static_cast<std::size_t>(peer)], kSends, "sends of rank ", peer);
      RINGLET_CHECK(!group.sender() && !group.sender(7), "nothing is sent any more");
    });
  }
}

TEST_CASE("a receive from any rank names the first send of a peer over a TCP store, too") {
  const Job job;
  const auto group_of = [&](int rank) {
    return Group(join_tcp_store(job.options(str("rank ", rank))), rank, 2);
  };
  std::thread sender([&] { group_of(1).send(numbered(1, 5, DType::f32), 0).wait(); });
  const Group group = group_of(0);
  std::optional<int> peer;
  for (const auto end = Clock::now() + 60s; !peer && Clock::now() < end; peer = group.sender())
    std::this_thread::yield();
  CHECK(peer == 1);
  Tensor received = empty({5});
  group.recv(received, 1).wait();
  expect_from(1, received, 0, "from rank 1");
  sender.join();
}

TEST_CASE("when_done: after the result, with the error, and free to call collectives") {
  for (const Setting& setting : settings({Algorithm::direct}))
    with_ranks(setting, [](const Group& group) {
      Tensor sum = full({1000}, 1), again = full({3}, 1);
      const auto seen = std::make_shared<std::promise<float>>();
      group.all_reduce(sum).when_done([&, seen](std::exception_ptr error) {
        group.all_reduce(again).wait();
        error ? seen->set_exception(error) : seen->set_value(sum.slice(999, 1000).item());
      });
      RINGLET_CHECK_EQ(seen->get_future().get(), static_cast<float>(group.size()), "the sum");
      RINGLET_CHECK_EQ(again.slice(2, 3).item(), static_cast<float>(group.size()), "the inner sum");
      bool ran = false;
      const Work barrier = group.start_barrier();
      barrier.wait();
      barrier.when_done([&](std::exception_ptr) { ran = true; });
      RINGLET_CHECK(ran, "of a Work that is done");
    });
  const std::string error = end_of_launch(
      [](const Group& group) {
        const auto end = std::make_shared<std::promise<void>>();
        group.all_reduce(zeros({group.rank() + 1})).when_done([end](std::exception_ptr error) {
          error ? end->set_exception(error) : end->set_value();
        });
        end->get_future().get();
      },
      2, {});
  INFO(error);
  CHECK(contains(error, "all_reduce (f32, 1)"));  // either rank may be the first to see it
  CHECK(contains(error, "all_reduce (f32, 2)"));
}
