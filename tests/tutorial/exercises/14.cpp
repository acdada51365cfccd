// Exercises of lesson 14: what FSDP does between its three lines.
#include <algorithm>
#include <cmath>

#include "ringlet.h"

using namespace ringlet;

// 1. This rank's part of the mean loss of a batch: the parts of all ranks add up to that mean.
// Ranks have different numbers of rows, with a loss each.
double part_of_mean(const std::vector<double>& losses, int rows_of_all_ranks) {
  // gap: the sum of the rank's losses, divided by the rows of the whole batch.
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / rows_of_all_ranks;
  // end: return static_cast<double>(losses.size()) * rows_of_all_ranks;
}

// 2. The actions of a step on layers 0 to n - 1, as text: "gather 0", "forward 0", "release 0", ….
// Then backward from the last layer: "gather 1", "backward 1", "reduce 1", "release 1", …. Unlike
// in the library, the last layer is kept between forward and backward, and so not gathered again.
std::vector<std::string> actions_of_step(int n) {
  std::vector<std::string> actions;
  // gap: two loops; str("gather ", i) makes a text.
  for (int i = 0; i < n; ++i) {
    actions.push_back(str("gather ", i));
    actions.push_back(str("forward ", i));
    if (i < n - 1) actions.push_back(str("release ", i));
  }
  for (int i = n - 1; i >= 0; --i) {
    if (i < n - 1) actions.push_back(str("gather ", i));
    actions.push_back(str("backward ", i));
    actions.push_back(str("reduce ", i));
    actions.push_back(str("release ", i));
  }
  // end: actions.push_back(str("gather ", n));
  return actions;
}

// 3. Scales the gradient, of which each rank has a shard, to a length of at most `most`. Returns
// its length before. Ranks may not exchange more than one number each.
double clip_norm(Tensor& shard, double most, const comm::Group& world) {
  // gap: the length is the root of a sum of squares; the sums of shards add up. fill_ and copy_.
  Tensor squares = sum(square(shard)).view({1});
  world.all_reduce(squares).wait();
  const double length = std::sqrt(squares.item<double>());
  if (length > most) shard.copy_(shard * (most / length));
  return length;
  // end: return most + world.size() + static_cast<double>(shard.numel());
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "a part of the mean") {
  expect("losses 1, 2, 6 of a batch of 4", part_of_mean({1, 2, 6}, 4), 2.25, "9 / 4");
  expect("the other rank's loss 3", part_of_mean({3}, 4), 0.75, "2.25 + 0.75 = 12 / 4");
  expect("a rank without rows", part_of_mean({}, 4), 0, "it adds nothing");
}

EXERCISE(2, "the actions of a step") {
  using Texts = std::vector<std::string>;
  expect("of two layers", actions_of_step(2),
         Texts{"gather 0", "forward 0", "release 0", "gather 1", "forward 1", "backward 1",
               "reduce 1", "release 1", "gather 0", "backward 0", "reduce 0", "release 0"},
         "only layer 1, the last one, stays whole between forward and backward");
  expect("of one layer", actions_of_step(1),
         Texts{"gather 0", "forward 0", "backward 0", "reduce 0", "release 0"}, "it is the last");
  expect("the number for five layers", actions_of_step(5).size(), 33, "7 for each but the last");
}

EXERCISE(3, "a length over shards") {
  comm::launch(
      [](const comm::Group& world) {
        const std::vector<Tensor> shards{tensor<float>({2, 4}), tensor<float>({0, 5}),
                                         tensor<float>({6, 0})};
        Tensor shard = shards[static_cast<std::size_t>(world.rank())].clone();
        expect("the length", clip_norm(shard, 3, world), 9, "4 + 16 + 25 + 36 is 81");
        const Tensor third = shards[static_cast<std::size_t>(world.rank())] / 3.0;
        expect("the shard", shard, third, "all shards by the same factor, 3 / 9");
        expect("the length afterwards", clip_norm(shard, 100, world), 3, "sum of squares 9");
        expect("the shard", shard, third, "a short gradient stays as it is");
      },
      3, {.group = {.timeout = std::chrono::seconds(5)}});
}
