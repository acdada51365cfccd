// Ranks that go on after an error: no peer waits for them for ever, and none gets wrong bytes.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "environment.h"
#include "ranks.h"
#include "ringlet/comm/membership.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// A rank's store, which the alarm reaches only by this rank's own call.
class DeafStore final : public Store {
 public:
  explicit DeafStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::string get(const std::string& key, Timeout timeout) override {
    return store_->get(key, timeout);
  }
  std::int64_t add(const std::string& key, std::int64_t n) override { return store_->add(key, n); }
  void raise(const std::string& cause) override {
    cause_ = cause;
    raised_ = true;
  }
  bool raised() const override { return raised_; }
  std::string cause() const override { return cause_; }

 private:
  std::shared_ptr<Store> store_;
  std::atomic<bool> raised_{false};
  std::string cause_;
};

std::size_t count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

}  // namespace

TEST_CASE("a buffer that a failed rank has used again is never a result") {
  for (const TransportKind kind : {TransportKind::thread, TransportKind::shm}) {
    CAPTURE(name(kind));
    const auto store = make_memory_store();
    const auto join = [&](int rank, const std::shared_ptr<Store>& its) {
      return Group(its, rank, 2, {.transport = kind, .timeout = 200ms});
    };
    auto joining = std::async(std::launch::async, join, 1, std::make_shared<DeafStore>(store));
    const Group sender = join(0, store), receiver = joining.get();
    Tensor sent = full({4}, 1, DType::f32, Device{});
    const Tensor received = full({4}, 2, DType::f32, Device{});
    CHECK_THROWS_AS(sender.broadcast(sent).wait(), Error);
    sent.fill_(666);
    CHECK(message_of([&] { receiver.broadcast(received).wait(); })
              .starts_with("[broadcast] collective 1 (f32, 4), step 0: rank 1 waits for rank 0, "
                           "which has left the group after an error"));
  }
}

TEST_CASE("a rank that was stopped while it read detects that the bytes were not kept") {
  const auto store = make_memory_store();
  const auto make = [&](int rank) { return make_thread_transport({store, rank, 2, 5s, "world"}); };
  auto making = std::async(std::launch::async, make, 1);
  const auto sender = make(0), reader = making.get();
  const Tensor x = zeros({4}, DType::f32, Device{});
  for (const auto& rank : {sender.get(), reader.get()})
    rank->begin({.sequence = 1, .count = 4, .op = Op::broadcast, .dtype = DType::f32}, x);
  const Transmission there{1, 0, x.nbytes()}, here{0, 0, x.nbytes()};
  sender->exchange({&there, 1}, {}, false);
  reader->exchange({}, {&here, 1}, false);
  sender->abandon();  // waits for the reader, but not for ever
  CHECK(message_of([&] { reader->release(); }).find("rank 0, which has left the group") !=
        std::string::npos);
}

TEST_CASE("peers of a rank that caught an exception learn at once that it left a subgroup") {
  for (const TransportKind kind : transports()) {
    CAPTURE(name(kind));
    const auto start = Clock::now();
    const std::string message = end_of_launch(
        [](const Group& world) {
          try {
            const Group pair = world.subgroup({0, 1});
            if (world.rank() == 0) fail("caught below");
            pair.all_reduce(zeros({4})).wait();
          } catch (const Error&) {
          }
          world.barrier();
        },
        2, {.transport = kind, .timeout = 60s});
    CHECK(message.find("rank 1 waits for rank 0, which has left the group by an exception") !=
          std::string::npos);
    CHECK(Clock::now() - start < 30s);
  }
}

TEST_CASE("a caught exception ends neither transfers and collectives in flight nor the job") {
  for (const TransportKind kind : transports()) {
    CAPTURE(name(kind));
    const std::string message = end_of_launch(
        [](const Group& world) {
          const Tensor x = full({4}, world.rank() == 0 ? 7 : 0);
          if (world.rank() == 0) {
            try {
              const Group outer = world.subgroup({0, 1}), inner = outer.subgroup({0, 1});
              outer.send(x, 1);
              inner.all_reduce(x);
              fail("caught below");
            } catch (const Error&) {
            }
            world.barrier();
          } else {
            const Group outer = world.subgroup({0, 1}), inner = outer.subgroup({0, 1});
            world.barrier();
            Tensor received = full({4}, 0);
            outer.recv(received, 0).wait();
            inner.all_reduce(x).wait();
            RINGLET_CHECK(received.to_vector() == std::vector<float>(4, 7), "received");
            RINGLET_CHECK(x.to_vector() == std::vector<float>(4, 7), "sum");
          }
        },
        2, {.transport = kind, .timeout = 20s});
    CHECK(message.empty());
  }
}

TEST_CASE("tags keep no thread while they are not used") {
  launch(
      [](const Group& group) {
        const Tensor x = zeros({4});
        const auto most = count_threads() + 20;
        group.barrier();
        for (int tag = 0; tag < 40; ++tag)
          (group.rank() == 0 ? group.send(x, 1, tag) : group.recv(x, 0, tag)).wait();
        const auto patience = Clock::now() + 60s;
        while (count_threads() > most && Clock::now() < patience) std::this_thread::sleep_for(50ms);
        RINGLET_CHECK(count_threads() <= most, count_threads(), " threads are left");
        const Work again = group.rank() == 0 ? group.send(x, 1, 3) : group.recv(x, 0, 3);
        again.wait();
        group.barrier();
      },
      2, {.group = {.transport = TransportKind::thread}});
}

TEST_CASE("the error of a peer is not attributed twice") {
  const std::string message = end_of_launch(
      [](const Group& group) {
        group.barrier();
        if (group.rank() == 1) fail("rank 0: data.csv: no such file");
      },
      2, {});
  CHECK(message == "rank 0: data.csv: no such file");
}

#if defined(RINGLET_TESTS_GLOO)
TEST_CASE("an unknown network interface is refused by its name") {
  const std::string message = with_environment({{"RINGLET_INTERFACE", "nosuch0"}}, [] {
    return end_of_launch([](const Group&) {}, 2, {.transport = TransportKind::gloo});
  });
  CHECK_MESSAGE(
      message.find(": RINGLET_INTERFACE=nosuch0: expected one of lo") != std::string::npos,
      message);
}
#endif

TEST_SUITE_END();
