// Exercises of lesson 18: tensor parallelism.
#include "ringlet.h"

using namespace ringlet;

// 1. Parts of a weight (out, in) for `rank` of n: its outputs, which are rows of the weight; and
// its inputs, which are columns.
Tensor outputs_of(const Tensor& weight, int rank, int n) {
  // gap: a slice.
  const std::int64_t outputs = weight.size(0) / n;
  return weight.slice(rank * outputs, (rank + 1) * outputs);
  // end: return weight + rank * n;
}
Tensor inputs_of(const Tensor& weight, int rank, int n) {
  // gap: narrow(weight, axis, begin, length).
  const std::int64_t inputs = weight.size(1) / n;
  return narrow(weight, 1, rank * inputs, inputs);
  // end: return weight + rank * n;
}

// 2. The numbers that a rank sends in a step of an encoder: each layer has two blocks, attention
// and feed-forward. Each has an all-reduce of (tokens, hidden) in forward and one in backward.
std::int64_t numbers_sent(std::int64_t layers, std::int64_t tokens, std::int64_t hidden,
                          std::int64_t n) {
  // gap: an all-reduce sends 2 (n - 1) / n of the numbers. Divide last.
  return layers * 4 * 2 * (n - 1) * tokens * hidden / n;
  // end: return layers + tokens + hidden + n;
}

// 3. y = relu(x up') down' + bias on each rank, with up (wide / n, in) and down (out, wide / n) of
// this rank. Both x (rows, in) and bias (out) are the same everywhere.
Tensor feed_forward(const Tensor& x, const Tensor& up, const Tensor& down, const Tensor& bias,
                    const comm::Group& world) {
  // gap: one all_reduce. The bias must be in the sum once.
  Tensor y = matmul(relu(matmul(x, up, {.trans_b = true})), down, {.trans_b = true});
  world.all_reduce(y).wait();
  return y + bias;
  // end: return x + up.numel() + down.numel() + bias.numel() + world.size();
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "parts of a weight") {
  const Tensor weight =
      tensor<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {4, 4});
  expect("the outputs of rank 1 of 2", outputs_of(weight, 1, 2),
         tensor<float>({9, 10, 11, 12, 13, 14, 15, 16}, {2, 4}), "rows 2 and 3");
  expect("the inputs of rank 1 of 2", inputs_of(weight, 1, 2),
         tensor<float>({3, 4, 7, 8, 11, 12, 15, 16}, {4, 2}), "columns 2 and 3 of each row");
  const Tensor wide = tensor<float>({1, 2, 3, 4, 5, 6}, {1, 6});
  expect("the outputs of rank 0 of 1", outputs_of(wide, 0, 1), wide, "one rank has all");
  expect("the inputs of rank 2 of 3", inputs_of(wide, 2, 3), tensor<float>({5, 6}, {1, 2}),
         "the last two of six");
}

EXERCISE(2, "the numbers sent") {
  expect("6 layers, 10 tokens, 8 wide, 4 ranks", numbers_sent(6, 10, 8, 4), 2880,
         "24 all-reduces of 80 numbers; each sends 120");
  expect("1 layer, 3 tokens, 5 wide, 3 ranks", numbers_sent(1, 3, 5, 3), 80, "4 times 20");
  expect("1 rank", numbers_sent(6, 10, 8, 1), 0, "there is no peer");
}

EXERCISE(3, "a block over ranks") {
  comm::launch(
      [](const comm::Group& world) {
        const Tensor x = tensor<float>({1, -1, 2, 0.5f, 3, -2}, {3, 2});
        const Tensor up = tensor<float>({1, 2, -1, 1, 0, 3, 2, -2}, {4, 2});
        const Tensor down = tensor<float>({1, 0, 2, 1, -1, 1, 0, 2}, {2, 4});
        const Tensor bias = tensor<float>({10, 20});
        const Tensor whole =
            matmul(relu(matmul(x, up, {.trans_b = true})), down, {.trans_b = true}) + bias;
        const int rank = world.rank();
        const Tensor columns = concat(
            {down.view({4, 2}).slice(rank, rank + 1), down.view({4, 2}).slice(2 + rank, 3 + rank)},
            0);
        const Tensor y = feed_forward(x, up.slice(2 * rank, 2 * rank + 2), columns, bias, world);
        expect("y", y, whole, "partial products are added over the ranks");
        expect<std::size_t>(str("the bytes that rank ", rank, " sends"), world.stats().bytes_sent,
                            24, "one all-reduce of 6 numbers of 4 bytes");
      },
      2, {.group = {.timeout = std::chrono::seconds(5)}});
}
