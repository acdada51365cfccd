// The programs of docs/ladder.md reach the same figures, alone and as two ranks.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

#include "ringlet/tests/cli/program.h"

TEST_SUITE_BEGIN("host");

namespace {

struct Figures {
  double loss, accuracy;
};

/// The last two numbers that a program prints.
Figures run_rung(const std::string& program, int ranks) {
  const Outcome outcome = ranks == 1 ? run_program(program, {})
                                     : run(str("run --nproc-per-node ", ranks, ' ', program));
  CAPTURE(program);
  INFO(outcome.out << outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  std::string text = outcome.out;
  std::ranges::replace_if(
      text, [](char c) { return (c < '0' || c > '9') && c != '.'; }, ' ');
  std::istringstream words(text);
  std::vector<double> numbers;
  for (std::string word; words >> word;)
    if (word.find_first_not_of('.') != word.npos) numbers.push_back(std::stod(word));
  REQUIRE_GE(numbers.size(), 2);
  const Figures last{numbers.end()[-2], numbers.end()[-1]};
  MESSAGE(program << ", " << ranks << " ranks: loss " << last.loss << ", accuracy "
                  << last.accuracy);
  return last;
}

void check_equal(const Figures& a, const Figures& b) {
  CHECK(a.accuracy == b.accuracy);
  CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-4));
}

}  // namespace

// Two ranks add the gradients of half batches: rounding may move a few of the 500 digits.
TEST_CASE("the rungs agree, and two ranks learn what one does") {
  std::map<int, Figures> bare;
  for (const int ranks : {1, 2}) {
    bare[ranks] = run_rung(RINGLET_BARE, ranks);
    check_equal(run_rung(RINGLET_PREPARED, ranks), bare[ranks]);
    check_equal(run_rung(RINGLET_TRAINER, ranks), bare[ranks]);
  }
  CHECK(bare[1].accuracy > 0.6);
  CHECK(bare[1].accuracy == doctest::Approx(bare[2].accuracy).epsilon(0.02));
}

TEST_CASE("the prepared program has the same figures under every strategy") {
  const Figures ddp = run_rung(RINGLET_PREPARED, 2);
  for (const char* strategy : {"zero1", "zero2", "fsdp"}) {
    CAPTURE(strategy);
    ::setenv("RINGLET_STRATEGY", strategy, 1);
    const Figures other = run_rung(RINGLET_PREPARED, 2);
    ::unsetenv("RINGLET_STRATEGY");
    CHECK(other.loss == ddp.loss);
    CHECK(other.accuracy == ddp.accuracy);
  }
}

TEST_CASE("a wrong RINGLET_STRATEGY is one line") {
  const auto refused = [](const char* strategy, int ranks) {
    ::setenv("RINGLET_STRATEGY", strategy, 1);
    const Outcome outcome = run(str("run --nproc-per-node ", ranks, ' ', RINGLET_PREPARED));
    ::unsetenv("RINGLET_STRATEGY");
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(contains(refused("fsdp2", 1), "RINGLET_STRATEGY: unknown strategy 'fsdp2'; expected none"));
  CHECK(
      contains(refused("none", 2), "strategy none: expected one rank, found 2; several need ddp"));
  CHECK(contains(refused("dp", 1), "strategy dp: an accelerator has one device for each process"));
}

TEST_SUITE_END();
