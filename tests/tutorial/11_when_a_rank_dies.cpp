// Lesson 11: when a rank dies. No rank waits for ever: its peers end immediately and name it.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "ringlet.h"

using namespace ringlet;

namespace {

// The error that launch throws, and the seconds until then.
std::pair<std::string, double> failure(const std::function<void(const comm::Group&)>& rank_main,
                                       comm::Ranks ranks) {
  const auto start = std::chrono::steady_clock::now();
  std::string message;
  try {
    comm::launch(rank_main, 3, {.ranks = ranks, .group = {.timeout = std::chrono::seconds(2)}});
  } catch (const Error& error) {
    message = error.what();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << message << " (after " << seconds.count() << " s)\n";
  return {message, seconds.count()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("11 when a rank dies") {
  // Killed: its end is detected immediately, long before any deadline. These ranks are processes
  // forked from this one and cannot use its GPU: `Device{}` is the CPU.
  Tensor x = zeros({1000}, DType::f32, Device{});
  const auto killed = failure(
      [&](const comm::Group& world) {
        if (world.rank() == 1) std::raise(SIGKILL);
        world.all_reduce(x).wait();
      },
      comm::Ranks::processes);
  CHECK(contains(killed.first, "rank 1"));

  // Throws: its peers get the reason.
  const auto thrown = failure(
      [](const comm::Group& world) {
        Tensor y = zeros({1000});
        if (world.rank() == 2) fail("the disk is full");
        world.all_reduce(y).wait();
      },
      comm::Ranks::threads);
  CHECK(thrown.first == "rank 2: the disk is full");

  // Returns early: the ranks that still need it end immediately.
  const auto early = failure(
      [](const comm::Group& world) {
        Tensor y = zeros({1000});
        if (world.rank() != 0) world.all_reduce(y).wait();
      },
      comm::Ranks::threads);
  CHECK(contains(early.first, "waits for rank 0, which has left the group"));
  CHECK(early.second < 2);

  // Alive but silent: the deadline of 2 s ends its peers and names the missing rank.
  const auto silent = failure(
      [](const comm::Group& world) {
        Tensor y = zeros({1000});
        if (world.rank() == 0)
          std::this_thread::sleep_for(std::chrono::seconds(3));
        else
          world.all_reduce(y).wait();
      },
      comm::Ranks::threads);
  CHECK(contains(silent.first, "[all_reduce]"));
  CHECK(contains(silent.first, "missing: 0"));
  CHECK(silent.second < 2 + 5);

  // Mismatch: two ranks that call different collectives detect it in the first step.
  const auto at_odds = failure(
      [](const comm::Group& world) {
        Tensor y = zeros({1000});
        if (world.rank() == 0)
          world.barrier();
        else
          world.all_reduce(y).wait();
      },
      comm::Ranks::threads);
  CHECK(contains(at_odds.first, "all_reduce"));
  CHECK(contains(at_odds.first, "barrier"));
  // `ringlet run --max-restarts 3` would now start all ranks again, from the last checkpoint.
}
