// The schedules of all ranks together: every transfer of a collective, and the sums it moves.
#pragma once

#include <vector>

#include "ringlet/comm/schedule.h"

namespace ringlet::comm {

struct Move {
  int step = 0;
  int from = 0;
  int to = 0;
  int piece = 0;
  Then then = Then::copy;  // done by the receiver
  /// After the step the receiver's piece is the sum over these ranks, ascending.
  std::vector<int> sum = {};
};

/// Every transfer of make_schedule's steps on `size` ranks, by step and then by sender. Each rank
/// begins with its own values of every piece. Error if a send has no receive, or if a rank's values
/// would be added twice.
std::vector<Move> all_moves(Op op, Algorithm algorithm, int size);

}  // namespace ringlet::comm
