// Exercises of lesson 9: a ring by hand.
#include "ringlet.h"

using namespace ringlet;

// 1. A reduce-scatter by a ring of n ranks has n - 1 steps, numbered from 0. The number of the
// piece that `rank` sends to the next rank in `step`. At the end rank r has the sum of piece r.
int piece_sent(int rank, int step, int n) {
  // gap: rank r begins with the piece before its own; each step goes one back, modulo n.
  return (rank - 1 - step + 2 * n) % n;
  // end: return 0;
}

// 2. The numbers that each rank sends in an all-reduce of `length` numbers; n divides length.
std::int64_t numbers_sent(std::int64_t length, std::int64_t n) {
  // gap: two rounds of n - 1 steps; in each step one piece of length / n numbers.
  return 2 * (n - 1) * (length / n);
  // end: return 0;
}

// 3. The all-gather of a ring: at the start rank r has piece r alone, at the end all pieces. Calls
// send(from, to, piece) for each piece of each step; a rank sends to the next one only.
void ring_all_gather(int n, const std::function<void(int, int, int)>& send) {
  // gap: rank r begins with its own piece, then sends the piece that it received last.
  for (int step = 0; step < n - 1; ++step)
    for (int rank = 0; rank < n; ++rank) send(rank, (rank + 1) % n, (rank - step + n) % n);
  // end: static_cast<void>(n), static_cast<void>(send);
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "the piece that a rank sends") {
  for (const int n : {2, 3, 4})
    for (int rank = 0; rank < n; ++rank) {
      const comm::Schedule ring =
          comm::make_schedule(comm::Op::reduce_scatter, comm::Algorithm::ring, rank, n);
      for (int step = 0; step < n - 1; ++step)
        expect(str("the piece of rank ", rank, " of ", n, " in step ", step),
               piece_sent(rank, step, n), ring[static_cast<std::size_t>(step)].sends[0].piece,
               "rank r ends with piece r, so it must send all other pieces, its own never");
    }
}

EXERCISE(2, "the numbers that a rank sends") {
  expect("12 numbers on 4 ranks", numbers_sent(12, 4), 18, "2 (n - 1) steps of 12 / 4 numbers");
  expect("12 numbers on 2 ranks", numbers_sent(12, 2), 12, "2 (n - 1) steps of 12 / 2 numbers");
  expect("12 numbers on 1 rank", numbers_sent(12, 1), 0, "there is no peer");
}

EXERCISE(3, "an all-gather") {
  for (const int n : {1, 2, 3, 5}) {
    const auto ranks = static_cast<std::size_t>(n);
    std::vector<std::vector<bool>> has(ranks, std::vector<bool>(ranks));
    for (std::size_t rank = 0; rank < ranks; ++rank) has[rank][rank] = true;
    int sends = 0;
    ring_all_gather(n, [&](int from, int to, int piece) {
      const std::string where = str(" in send(", from, ", ", to, ", ", piece, ") of ", n, " ranks");
      expect("the receiver" + where, to, (from + 1) % n, "the last rank sends to rank 0");
      expect<bool>("the sender has the piece" + where,
                   has.at(static_cast<std::size_t>(from)).at(static_cast<std::size_t>(piece)), true,
                   "it has its own piece, and those that the rank before it has sent");
      has[static_cast<std::size_t>(to)][static_cast<std::size_t>(piece)] = true;
      ++sends;
    });
    for (std::size_t rank = 0; rank < ranks; ++rank)
      expect(str("the pieces that rank ", rank, " of ", n, " has"), has[rank],
             std::vector<bool>(ranks, true), "follow piece 0 around the ring on paper");
    expect(str("the sends of ", n, " ranks"), sends, n * (n - 1), "n - 1 steps, n ranks");
  }
}
