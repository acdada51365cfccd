// The spread between ranks, and its cost for a step that waits for all of them.
#pragma once

#include <vector>

namespace ringlet::bench {

/// The expected largest of n independent normal draws, in standard deviations above the mean: 0 for
/// n = 1, 1 / sqrt(pi) for 2. By quadrature, to 1e-9.
double expected_maximum(int n);

/// The residual spread of steps with the same batches in each round: standard deviation / mean. It
/// excludes the common part of a step over all rounds, i.e. its batch. It also excludes the common
/// part of a round over its steps, i.e. other load on the machine. Concurrent ranks share both. 0
/// for fewer than two rounds or steps; all rounds have the same number of steps.
double spread_over_rounds(const std::vector<std::vector<double>>& rounds);

}  // namespace ringlet::bench
