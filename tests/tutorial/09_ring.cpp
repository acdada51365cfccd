// Lesson 9: a ring by hand. Every rank communicates with its neighbours alone, yet all get the sum.
#include <doctest/doctest.h>

#include <iostream>

#include "ringlet.h"

using namespace ringlet;

namespace {

using Piece = std::vector<int>;
using Buffer = std::vector<Piece>;  // one piece per rank

// All ranks in one process: buffers[r] is rank r's. Returns the count of numbers sent by each rank.
std::vector<int> ring_all_reduce(std::vector<Buffer>& buffers) {
  const int n = static_cast<int>(buffers.size());
  std::vector<int> sent(buffers.size());
  const auto mod = [n](int i) { return static_cast<std::size_t>((i % n + n) % n); };
  // Two rounds: first partial sums, then copies of the complete pieces.
  for (int step = 0; step < 2 * (n - 1); ++step) {
    const std::vector<Buffer> before = buffers;  // all send at the same time
    for (int rank = 0; rank < n; ++rank) {
      const std::size_t piece = mod(rank - 1 - step), next = mod(rank + 1);
      const Piece& mine = before[mod(rank)][piece];
      for (std::size_t i = 0; i < mine.size(); ++i) {
        int& theirs = buffers[next][piece][i];
        theirs = step < n - 1 ? theirs + mine[i] : mine[i];
      }
      sent[mod(rank)] += static_cast<int>(mine.size());
    }
  }
  return sent;
}

}  // namespace

TEST_CASE("09 ring") {
  const int n = 4, piece = 3;
  std::vector<Buffer> buffers;
  for (int rank = 0; rank < n; ++rank)  // rank r has r + 1 everywhere
    buffers.push_back(Buffer(n, Piece(piece, rank + 1)));
  const std::vector<int> sent = ring_all_reduce(buffers);
  for (const Buffer& buffer : buffers)
    for (const Piece& each : buffer) CHECK(each == Piece(piece, 1 + 2 + 3 + 4));

  // For any number of ranks, each sends less than twice the buffer: 2 (n - 1) / n of it.
  std::cout << "by hand: each rank sends " << sent[0] << " numbers for a buffer of " << n * piece
            << ": " << 2 * (n - 1) << " pieces of " << piece << "\n";
  CHECK(sent == std::vector<int>(n, 2 * (n - 1) * piece));

  // The library's ring is this one as data: the piece, the sender and the receiver of each step.
  const comm::Schedule schedule =
      comm::make_schedule(comm::Op::all_reduce, comm::Algorithm::ring, /*rank=*/1, n);
  for (std::size_t step = 0; step < schedule.size(); ++step)
    std::cout << "step " << step << ": rank 1 sends piece " << schedule[step].sends[0].piece
              << " to rank " << schedule[step].sends[0].peer << ", receives piece "
              << schedule[step].receives[0].piece << " and "
              << (schedule[step].then == comm::Then::copy ? "keeps" : "adds") << " it\n";
  CHECK(schedule.size() == 2 * (n - 1));
  CHECK(comm::elements_sent(schedule, comm::even_pieces(n * piece, n)) == sent[1]);

  comm::launch(
      [](const comm::Group& world) {
        Tensor x = full({12}, world.rank() + 1);
        world.all_reduce(x).wait();
        CHECK(x.to_vector() == std::vector<float>(12, 10));
      },
      n, {.group = {.algorithm = comm::Algorithm::ring}});
}
