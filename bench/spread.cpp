#include "spread.h"

#include <cmath>
#include <numbers>

#include "ringlet/core/error.h"

namespace ringlet::bench {

// The density of the largest is n phi(x) Phi(x)^(n-1). It is analytic and vanishes at both ends as
// fast as a normal density. So the trapezoid rule converges faster than any power of the step.
double expected_maximum(int n) {
  if (n < 2) return 0;  // the rule would give 1e-17 instead of 0
  constexpr double kStep = 1.0 / 64, kEnd = 12;
  double sum = 0;
  for (double x = -kEnd; x <= kEnd; x += kStep) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double below = std::erfc(-x / std::numbers::sqrt2) / 2;
    sum += x * n * density * std::pow(below, n - 1);
  }
  return kStep * sum;
}

double spread_over_rounds(const std::vector<std::vector<double>>& rounds) {
  if (rounds.size() < 2 || rounds[0].size() < 2) return 0;
  const auto n = static_cast<double>(rounds.size());
  const auto steps = static_cast<double>(rounds[0].size());
  std::vector<double> of_step(rounds[0].size()), of_round(rounds.size());
  double all = 0;
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    RINGLET_CHECK_EQ(rounds[round].size(), rounds[0].size(), "[spread] rounds have as many steps");
    for (std::size_t step = 0; step < rounds[0].size(); ++step) {
      of_step[step] += rounds[round][step] / n;
      of_round[round] += rounds[round][step] / steps;
    }
    all += of_round[round] / n;
  }
  double squares = 0;
  for (std::size_t round = 0; round < rounds.size(); ++round)
    for (std::size_t step = 0; step < rounds[0].size(); ++step) {
      const double left = rounds[round][step] - of_step[step] - of_round[round] + all;
      squares += left * left;
    }
  return std::sqrt(squares / ((n - 1) * (steps - 1))) / all;
}

}  // namespace ringlet::bench
