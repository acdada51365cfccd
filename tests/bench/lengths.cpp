// Batches of drawn lengths for each rank.
#include "ringlet/bench/lengths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

TEST_SUITE_BEGIN("host");

using ringlet::bench::Lengths;

namespace {

const Lengths& snli() {
  static const Lengths lengths(RINGLET_BENCH_DIR "/data/snli_lengths.json");
  return lengths;
}

/// The tokens of each rank in a step of 32 pairs per rank.
std::vector<double> tokens_of_ranks(std::int64_t step, std::size_t ranks) {
  std::vector<double> tokens;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    tokens.push_back(static_cast<double>(
        snli()
            .batch(step, static_cast<std::int64_t>(32 * ranks), 2000, 384, false, rank, ranks)
            .real_tokens));
  return tokens;
}

}  // namespace

TEST_CASE("ranks get batches of one step near-equal in tokens, so lengths make no stragglers") {
  constexpr int kSteps = 200;
  for (const std::size_t ranks : {2, 4}) {
    CAPTURE(ranks);
    double beyond = 0;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const std::vector<double> tokens = tokens_of_ranks(step, ranks);
      double mean = 0;
      for (const double each : tokens) mean += each / static_cast<double>(ranks);
      beyond += (*std::max_element(tokens.begin(), tokens.end()) / mean - 1) / kSteps;
    }
    CHECK(beyond < 0.003);
  }
}

TEST_CASE("one device's batches differ from step to step by a twentieth, in each round alike") {
  constexpr int kSteps = 200;
  double sum = 0, squares = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const double tokens = tokens_of_ranks(step, 1)[0];
    sum += tokens / kSteps;
    squares += tokens * tokens / kSteps;
  }
  const double spread = std::sqrt(squares - sum * sum) / sum;
  CHECK(spread > 0.04);
  CHECK(spread < 0.06);
  CHECK(tokens_of_ranks(7, 1) == tokens_of_ranks(7, 1));
}

TEST_SUITE_END();
