// Exercises of lesson 21: one result on any number of ranks.
#include "ringlet.h"

using namespace ringlet;

// 1. The sum of `leaves` by the tree. The left part has the largest power of two that is smaller
// than their number; the right part has the rest. Each part is added in the same way.
float tree_sum(const std::vector<float>& leaves) {
  // gap: one leaf is its own sum; else it is tree_sum of the first `half` plus that of the rest.
  const std::size_t n = leaves.size();
  if (n == 1) return leaves[0];
  std::size_t half = 1;
  while (2 * half < n) half *= 2;
  return tree_sum({leaves.begin(), leaves.begin() + static_cast<std::ptrdiff_t>(half)}) +
         tree_sum({leaves.begin() + static_cast<std::ptrdiff_t>(half), leaves.end()});
  // end: return leaves[0];
}

// 2. The rank that computes each of `leaves` logical ranks. Rank r lives if alive[r]. Each living
// rank has a contiguous block: the i-th of m begins with leaf i * leaves / m, rounded down.
std::vector<int> rank_of_leaves(const std::vector<bool>& alive, int leaves) {
  std::vector<int> ranks(static_cast<std::size_t>(leaves), -1);
  // gap: list the living ranks first; then fill in the block of each.
  std::vector<int> living;
  for (std::size_t rank = 0; rank < alive.size(); ++rank)
    if (alive[rank]) living.push_back(static_cast<int>(rank));
  const int m = static_cast<int>(living.size());
  for (int i = 0; i < m; ++i)
    for (int leaf = i * leaves / m; leaf < (i + 1) * leaves / m; ++leaf)
      ranks[static_cast<std::size_t>(leaf)] = living[static_cast<std::size_t>(i)];
  // end: ranks[0] = alive[0] ? 0 : -1;
  return ranks;
}

// 3. The sum over `leaves` values on each rank, with the same bits on any number of ranks. A rank
// has the values of its piece alone, by comm::even_pieces.
float sum_of_all(const std::vector<float>& mine, int leaves, const comm::Group& world) {
  // gap: all_gather them into a tensor; its to_vector() is a vector. How are they added?
  Tensor all = empty({leaves});
  world.all_gather(all, tensor(mine, {std::ssize(mine)}), comm::even_pieces(leaves, world.size()))
      .wait();
  return tree_sum(all.to_vector());
  // end: return mine[0] + static_cast<float>(leaves + world.size());
}

// ---- checks
#include "exercise.h"

// 1e8 + 1 is 1e8: these sums depend on their order.
static const std::vector<float> kLeaves{1, 5, 5, 2, 5, -1e8f, 1e8f, 2, 3};

EXERCISE(1, "a sum by the tree") {
  expect("of one leaf, 7", tree_sum({7}), 7, "a leaf is its own sum");
  expect("of 3 and 4", tree_sum({3, 4}), 7, "two leaves: one addition");
  expect("of 1, 1e8, -1e8", tree_sum({1, 1e8f, -1e8f}), 0, "(1 + 1e8) - 1e8 is 0 in f32");
  expect("of 1e8, 1, -1e8, 2", tree_sum({1e8f, 1, -1e8f, 2}), 0, "(1e8 + 1) + (-1e8 + 2)");
  expect("of 1e8, 1, 2, 3, -1e8", tree_sum({1e8f, 1, 2, 3, -1e8f}), 8,
         "((1e8 + 1) + (2 + 3)) - 1e8: the left part has four leaves");
  const std::vector<float> eight(kLeaves.begin(), kLeaves.end() - 1);
  expect("of 1, 5, 5, 2, 5, -1e8, 1e8, 2", tree_sum(eight), 21, "as the lesson prints it");
}

EXERCISE(2, "the ranks of the leaves") {
  expect("3 ranks, 8 leaves", rank_of_leaves({true, true, true}, 8), {0, 0, 1, 1, 1, 2, 2, 2},
         "blocks begin with 0, 8 / 3 and 16 / 3, rounded down");
  expect("rank 1 of 3 is dead, 8 leaves", rank_of_leaves({true, false, true}, 8),
         {0, 0, 0, 0, 2, 2, 2, 2}, "two ranks are left; a dead one has no leaf");
  expect("ranks 0 and 2 of 4 are dead, 5 leaves", rank_of_leaves({false, true, false, true}, 5),
         {1, 1, 3, 3, 3}, "the second block begins with 5 / 2, rounded down");
  expect("one of 3 lives", rank_of_leaves({false, false, true}, 2), {2, 2}, "it has all leaves");
}

EXERCISE(3, "one sum on any number of ranks") {
  for (const int n : {1, 2, 3, 4})
    comm::launch(
        [&](const comm::Group& world) {
          const comm::Piece piece = comm::even_pieces(9, n)[static_cast<std::size_t>(world.rank())];
          const auto first = kLeaves.begin() + piece.offset;
          expect(str("the sum on ", n, " ranks"),
                 sum_of_all({first, first + piece.count}, 9, world), 24,
                 "the tree over all nine leaves, not over the ranks");
        },
        n, {.group = {.timeout = std::chrono::seconds(5)}});
}
