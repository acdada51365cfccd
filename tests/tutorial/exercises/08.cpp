// Exercises of lesson 8: ranks and worlds.
#include "ringlet.h"

using namespace ringlet;

// 1. The ranks that have device number `device` of each of `nodes` nodes with `devices` devices.
// Ranks are numbered node after node.
std::vector<int> ranks_of_device(int device, int nodes, int devices) {
  std::vector<int> ranks;
  // gap: node k has the ranks from k * devices on.
  for (int node = 0; node < nodes; ++node) ranks.push_back(node * devices + device);
  // end: ranks.push_back(0 * (device + nodes + devices));
  return ranks;
}

// 2. The mean of the values of all ranks; each rank has another number of them, perhaps none.
double mean_of_all(const std::vector<double>& mine, const comm::Group& world) {
  // gap: one all_reduce of two f64 numbers: the sum of the values, and how many they are.
  double sum = 0;
  for (const double value : mine) sum += value;
  Tensor both = tensor({sum, static_cast<double>(mine.size())});
  world.all_reduce(both).wait();
  return both.to_vector<double>()[0] / both.to_vector<double>()[1];
  // end: return static_cast<double>(mine.size()) * world.size();
}

// 3. An all-reduce in two levels. `node` has the ranks of this node, `across` the ranks with the
// same device of each node. Links between nodes are slow: only a part of x may use them.
// A group's reduce_scatter(mine, x, pieces) gives rank r the sum of piece r; wait() for its end.
// Its all_gather(x, mine, pieces) puts each rank's `mine` in its place in x, on all ranks.
void two_level_sum(Tensor& x, const comm::Group& node, const comm::Group& across) {
  const comm::Pieces pieces = comm::even_pieces(x.numel(), node.size());
  Tensor mine = empty({x.numel() / node.size()});
  // gap: reduce_scatter in the node, all_reduce across nodes, all_gather in the node.
  node.reduce_scatter(mine, x, pieces).wait();
  across.all_reduce(mine).wait();
  node.all_gather(x, mine, pieces).wait();
  // end: static_cast<void>(pieces), static_cast<void>(across);
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "the ranks of a device") {
  expect("device 1 of 3 nodes of 4", ranks_of_device(1, 3, 4), {1, 5, 9},
         "node 1 begins at rank 4");
  expect("device 0 of 1 node of 2", ranks_of_device(0, 1, 2), {0}, "a node has each device once");
}

EXERCISE(2, "a mean over ranks") {
  comm::launch(
      [](const comm::Group& world) {
        const std::vector<std::vector<double>> values{{1, 2, 3}, {10}, {}};
        expect("the mean", mean_of_all(values[static_cast<std::size_t>(world.rank())], world), 4.0,
               "16 / 4; the mean of means is another number");
      },
      3, {.group = {.timeout = std::chrono::seconds(5)}});
}

EXERCISE(3, "a sum in two levels") {
  comm::launch(
      [](const comm::Group& world) {
        const comm::Group first = world.subgroup({0, 1, 2}), second = world.subgroup({3, 4, 5});
        std::vector<comm::Group> pairs;
        for (int i = 0; i < 3; ++i) pairs.push_back(world.subgroup({i, i + 3}));
        const comm::Group& across = pairs[static_cast<std::size_t>(world.rank() % 3)];
        Tensor x =
            full({12}, world.rank() + 1) * tensor<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
        two_level_sum(x, world.rank() < 3 ? first : second, across);
        expect("the result", x,
               tensor<float>({21, 42, 63, 84, 105, 126, 147, 168, 189, 210, 231, 252}),
               "the sum over six ranks, of all twelve numbers");
        expect<std::size_t>("the bytes between nodes", across.stats().bytes_sent, 16,
                            "a third of the 12 numbers, of 4 bytes");
      },
      6, {.group = {.timeout = std::chrono::seconds(5)}});
}
