// How ranks stray from one another, and what that costs a step that waits for all of them.
#pragma once

#include <vector>

namespace ringlet::bench {

/// The largest of n independent draws lies on average this many standard deviations above their
/// mean, if they are normal: 0 for n = 1, 1 / sqrt(pi) for 2. By quadrature, to 1e-9.
double expected_maximum(int n);

/// Of steps whose batches are the same in each round: the standard deviation, over the mean, of
/// what is left without what a step has in common in all rounds, its batch, and what a round has in
/// common in all its steps, others that share the machine. Ranks beside each other have both in
/// common. 0 for fewer than two rounds or steps; the rounds have as many steps.
double spread_over_rounds(const std::vector<std::vector<double>>& rounds);

}  // namespace ringlet::bench
