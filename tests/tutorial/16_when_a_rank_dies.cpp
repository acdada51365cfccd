// Lesson 16: when a rank dies. No rank waits for ever: its peers end immediately and name it.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <thread>

#include "ringlet.h"

using namespace ringlet;

namespace {

// The error that launch throws; prints it with the seconds until then.
std::string failure(const std::function<void(const comm::Group&)>& rank_main, comm::Ranks ranks) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double ended[3] = {};
  const auto timed = [&](const comm::Group& world) {
    const std::shared_ptr<double> guard(&ended[world.rank()], [&](double* t) { *t = seconds(); });
    rank_main(world);
  };
  std::string message;
  try {
    comm::launch(timed, 3, {.ranks = ranks, .group = {.timeout = std::chrono::seconds(2)}});
  } catch (const Error& error) {
    message = error.what();
  }
  std::cout << message << " (after " << seconds() << " s)\n";
  // A character for each tenth of a second of a rank. Processes have a memory of their own.
  for (int rank = 0; ranks == comm::Ranks::threads && rank < 3; ++rank)
    std::cout << "  rank " << rank << " " << std::string(std::lround(10 * ended[rank]), '-')
              << "| its end\n";
  return message;
}

}  // namespace

TEST_CASE("16 when a rank dies") {
  // Killed: its end is detected immediately, long before any deadline. These ranks are processes
  // forked from this one and cannot use its GPU: `Device{}` is the CPU.
  Tensor x = zeros({1000}, DType::f32, Device{});
  const std::string killed = failure(
      [&](const comm::Group& world) {
        if (world.rank() == 1) std::raise(SIGKILL);
        world.all_reduce(x).wait();
      },
      comm::Ranks::processes);
  CHECK(killed.find("rank 1") != std::string::npos);

  // Throws: its peers get the reason.
  const std::string thrown = failure(
      [](const comm::Group& world) {
        Tensor y = zeros({1000});
        if (world.rank() == 2) fail("the disk is full");
        world.all_reduce(y).wait();
      },
      comm::Ranks::threads);
  CHECK(thrown == "rank 2: the disk is full");

  // Returns early: the ranks that still need it end immediately.
  const std::string early = failure(
      [](const comm::Group& world) {
        Tensor y = zeros({1000});
        if (world.rank() != 0) world.all_reduce(y).wait();
      },
      comm::Ranks::threads);
  CHECK(early.find("waits for rank 0, which has left the group") != std::string::npos);

  // Alive but silent: the deadline of 2 s ends its peers and names the missing rank.
  const std::string silent = failure(
      [](const comm::Group& world) {
        Tensor y = zeros({1000});
        while (world.rank() == 0 && !world.store().raised())
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (world.rank() != 0) world.all_reduce(y).wait();
      },
      comm::Ranks::threads);
  CHECK(silent.find("[all_reduce]") != std::string::npos);
  CHECK(silent.find("missing: 0") != std::string::npos);

  // Mismatch: two ranks that call different collectives detect it in the first step.
  const std::string at_odds = failure(
      [](const comm::Group& world) {
        Tensor y = zeros({1000});
        if (world.rank() == 0)
          world.barrier();
        else
          world.all_reduce(y).wait();
      },
      comm::Ranks::threads);
  CHECK(at_odds.find("all_reduce") != std::string::npos);
  CHECK(at_odds.find("barrier") != std::string::npos);
  // `ringlet run --max-restarts 3` would now start all ranks again. Lesson 21 goes on without one.
}
