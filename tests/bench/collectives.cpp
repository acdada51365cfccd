// The contenders of the collectives bench on a shared GPU, emulated asynchronously in host memory.
// On a CPU tests/cli runs the program itself.
#include <doctest/doctest.h>

#include "../delayed_device.h"
#include "ringlet/bench/collectives.h"
#include "ringlet/comm/launch.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::bench;

namespace {

CollectivesOptions options_of(int ranks) {
  CollectivesOptions options;
  options.ranks = ranks;
  options.device = {DeviceType::cuda, 0};
  options.transport = comm::TransportKind::thread;
  options.begin = options.end = 4000;
  options.seconds = 0.001;
  options.mpi = false;
  return options;
}

struct Result {
  std::string algorithm;
  std::int64_t wrong;
  bool timed;
  bool operator==(const Result&) const = default;
};

std::vector<Result> run(const CollectivesOptions& options, const std::string& op) {
  std::vector<Result> results;
  const auto rank_main = [&](const comm::Group& world) {
    for (const Contender& contender : make_contenders(options, world)) {
      if (!contender.can(op)) continue;
      const Timed timed = contender.run(op, options.begin, /*check=*/true);
      if (world.rank() == 0)
        results.push_back({contender.algorithm, timed.wrong, timed.seconds.size() >= 3});
    }
  };
  comm::launch(rank_main, options.ranks, {.ranks = comm::Ranks::threads});
  return results;
}

}  // namespace

TEST_CASE("ranks that share a GPU reduce in one launch, too, beside steps and copies") {
  const DelayedDevice one(1, /*devices=*/1);
  for (const int ranks : {2, 4, 8}) {
    const CollectivesOptions options = options_of(ranks);
    CHECK(options.share_a_gpu());
    CHECK(options.why_not_in_kernel() == "");
    CHECK(run(options, "all_reduce") == std::vector<Result>{{"direct", 0, true},
                                                            {"ring", 0, true},
                                                            {"in-kernel-direct", 0, true},
                                                            {"in-kernel-ring", 0, true},
                                                            {"copy", 0, true}});
  }
  for (const char* half : {"reduce_scatter", "all_gather"})
    CHECK(run(options_of(2), half) == std::vector<Result>{{"direct", 0, true},
                                                          {"ring", 0, true},
                                                          {"in-kernel-direct", 0, true},
                                                          {"copy", 0, true}});
}

TEST_CASE("ranks that share a GPU leave NCCL out, and one line says so") {
  const DelayedDevice one(1, /*devices=*/1);
  const CollectivesOptions options = options_of(2);
  const std::string why = "it takes no two ranks of one GPU, and of these there are 1";
  CHECK(options.why_not_nccl() == why);
  CHECK(options.left_out() == std::vector<std::pair<std::string, std::string>>{{"nccl", why}});
}

TEST_CASE("pieces are even where a library wants them so") {
  const CollectivesOptions options = options_of(3);
  const DelayedDevice one(1, /*devices=*/1);
  const auto rank_main = [&](const comm::Group& world) {
    Exercise exercise(options, world);
    exercise.prepare(options.begin, /*even=*/true);  // 999 of 1000 elements
    const auto before = world.stats().bytes_sent;
    exercise.run("all_gather", world);
    RINGLET_CHECK_EQ(world.stats().bytes_sent - before, std::size_t{2 * 333 * sizeof(float)},
                     "of pieces alike");
  };
  comm::launch(rank_main, options.ranks, {.ranks = comm::Ranks::threads});
}

TEST_CASE("in-kernel algorithms that these devices do not run say why they are not measured") {
  CollectivesOptions options = options_of(33);
  options.device = {};
  CHECK(options.why_not_in_kernel() ==
        "they are for ranks on GPUs (--device cuda), and these are on a CPU");
  options.device = {DeviceType::cuda, 0};
  {
    const DelayedDevice one(1, /*devices=*/1);
    CHECK(options.why_not_in_kernel() == "a launch takes 32 ranks at most, and these are 33");
    options.ranks = 2;
    options.transport = comm::TransportKind::nccl;
    CHECK(options.why_not_in_kernel() ==
          "they are for ranks that meet over thread, and these do over nccl");
  }
  options.transport = comm::TransportKind::thread;
  DelayedDevice four;
  CHECK(options.why_not_in_kernel() == "these devices run no ranks by a launch on each");
  four.cut_links();
  CHECK(options.why_not_in_kernel() == "cuda:0 has no peer access to cuda:1");
}

TEST_SUITE_END();
