// Exercises of lesson 13: FSDP by hand.
#include <algorithm>

#include "ringlet.h"

using namespace ringlet;

// 1. The shard that `rank` of n keeps of `flat`: all shards have the same length, rounded up. The
// end is filled up with zeros.
Tensor shard_of(const Tensor& flat, int rank, int n) {
  // gap: pad(flat, 0, 0, zeros) adds zeros behind; then it is a slice.
  const std::int64_t length = (flat.numel() + n - 1) / n;
  const Tensor padded = pad(flat, 0, 0, length * n - flat.numel());
  return padded.slice(rank * length, (rank + 1) * length);
  // end: return flat.slice(0, std::min(rank, n));
}

// 2. The most elements that a rank has at one time. Each of n ranks keeps its shard of all layers
// (n divides them). A layer is gathered while it is used; the next one is gathered at that time, so
// that no computation waits for it.
std::int64_t most_elements(const std::vector<std::int64_t>& layers, std::int64_t n) {
  // gap: the sum over n, and the largest pair of neighbours.
  std::int64_t kept = 0, most = 0, previous = 0;
  for (const std::int64_t layer : layers) {
    kept += layer / n;
    most = std::max(most, previous + layer);
    previous = layer;
  }
  return kept + most;
  // end: return static_cast<std::int64_t>(layers.size()) + n;
}

// 3. The backward of y = x W', with W (out, in) in shards of out / n rows. grad_y (rows, out). Sets
// grad_shard (out / n, in) to its part of the sum over ranks of grad_y' x. Returns grad_y W.
Tensor backward(const Tensor& x, const Tensor& grad_y, const Tensor& shard, Tensor& grad_shard,
                const comm::Group& world) {
  const std::int64_t out = shard.size(0) * world.size(), in = shard.size(1);
  const comm::Pieces pieces = comm::even_pieces(out * in, world.size());
  Tensor weight = empty({out, in});
  // gap: all_gather, two products, reduce_scatter. matmul(a, b, {.trans_a = true}) is a' b.
  world.all_gather(weight, shard, pieces).wait();
  const Tensor grad_weight = matmul(grad_y, x, {.trans_a = true});
  world.reduce_scatter(grad_shard, grad_weight, pieces).wait();
  return matmul(grad_y, weight);
  // end: return x + grad_y.numel() + weight.numel() + grad_shard.numel() + double(pieces.size());
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "a shard") {
  const Tensor flat = tensor<float>({1, 2, 3, 4, 5, 6, 7});
  expect("rank 0 of 3, 7 elements", shard_of(flat, 0, 3), tensor<float>({1, 2, 3}), "7 / 3 is 3");
  expect("rank 2 of 3", shard_of(flat, 2, 3), tensor<float>({7, 0, 0}),
         "zeros fill the last shard");
  expect("rank 1 of 7", shard_of(flat, 1, 7), tensor<float>({2}), "7 / 7 is 1 exactly");
}

EXERCISE(2, "the most elements") {
  expect("layers of 8, 8, 8 on 4 ranks", most_elements({8, 8, 8}, 4), 22,
         "6 in shards, and two whole layers");
  expect("layers of 2, 20, 4, 10 on 2 ranks", most_elements({2, 20, 4, 10}, 2), 42,
         "18 in shards; 20 and 4 are the largest neighbours");
  expect("layers of 10, 2, 20 on 2 ranks", most_elements({10, 2, 20}, 2), 38,
         "16 in shards; the two largest layers are no neighbours");
  expect("one layer of 6 on 3 ranks", most_elements({6}, 3), 8, "there is no next layer");
}

EXERCISE(3, "a sharded backward") {
  comm::launch(
      [](const comm::Group& world) {
        const Tensor whole = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {4, 3});
        const Tensor x = full({2, 3}, world.rank() + 1) * tensor<float>({1, 2, 3});
        const Tensor grad_y = tensor<float>({1, 0, 2, 0, 0, 1, 0, 3}, {2, 4});
        Tensor grad_shard = zeros({2, 3});
        const Tensor shard = whole.slice(2 * world.rank(), 2 * world.rank() + 2);
        const Tensor grad_x = backward(x, grad_y, shard, grad_shard, world);
        expect("grad_y W", grad_x, matmul(grad_y, whole), "W has the rows of all ranks");
        const Tensor sum =
            matmul(grad_y, 3 * full({2, 3}, 1) * tensor<float>({1, 2, 3}), {.trans_a = true});
        expect("the gradient of the shard", grad_shard,
               sum.slice(2 * world.rank(), 2 * world.rank() + 2),
               "rank 0 adds 1, rank 1 adds 2 times grad_y' (1, 2, 3)");
      },
      2, {.group = {.timeout = std::chrono::seconds(5)}});
}
