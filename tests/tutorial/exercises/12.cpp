// Exercises of lesson 12: ZeRO-1.
#include <algorithm>
#include <cmath>

#include "ringlet.h"

using namespace ringlet;

// 1. A parameter with its two moments.
struct Adam {
  double value = 0, m = 0, v = 0;
};

// A step of AdamW without weight decay, the `step`-th from 1, with the usual 0.9 and 0.999.
void adam_step(Adam& p, double gradient, double rate, int step) {
  // gap: m and v are running means of g and g². Both begin at 0: divide them by 1 - 0.9^step, ….
  p.m = 0.9 * p.m + 0.1 * gradient;
  p.v = 0.999 * p.v + 0.001 * gradient * gradient;
  const double mean = p.m / (1 - std::pow(0.9, step));
  p.value -= rate * mean / (std::sqrt(p.v / (1 - std::pow(0.999, step))) + 1e-8);
  // end: static_cast<void>(p.value + gradient + rate + step);
}

// 2. The bytes of moments that `rank` of n keeps: `parameters` are cut into shards of equal length,
// rounded up; the last ranks may have less. A moment has 4 bytes.
std::int64_t moment_bytes(std::int64_t parameters, int rank, int n) {
  // gap: shard r has parameters [r * length, (r + 1) * length), but none behind the last parameter.
  const std::int64_t length = (parameters + n - 1) / n;
  const std::int64_t begin = std::min(rank * length, parameters);
  return 8 * (std::min(begin + length, parameters) - begin);
  // end: return 0;
}

// 3. A step of plain gradient descent as ZeRO-1 does it. Each rank has all `values` and its own
// `gradients`, both (n * shard). It updates its shard by the sum of all gradients.
void zero1_step(Tensor& values, const Tensor& gradients, double rate, const comm::Group& world) {
  const comm::Pieces pieces = comm::even_pieces(values.numel(), world.size());
  const std::int64_t shard = values.numel() / world.size();
  // gap: a reduce_scatter of the gradients, then the update, then an all_gather of the values.
  Tensor sum = empty({shard});
  world.reduce_scatter(sum, gradients, pieces).wait();
  const std::int64_t begin = world.rank() * shard;
  const Tensor mine = values.slice(begin, begin + shard) - sum * rate;
  world.all_gather(values, mine, pieces).wait();
  // end: static_cast<void>(shard), static_cast<void>(gradients), static_cast<void>(rate);
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "AdamW by hand") {
  Adam p{1};
  adam_step(p, 4, 0.1, 1);
  expect("m after a gradient of 4", p.m, 0.4, "0.9 m + 0.1 g");
  expect("v after a gradient of 4", p.v, 0.016, "0.999 v + 0.001 g²");
  expect("the value after step 1", p.value, 0.9, "the first step has the length of the rate");
  adam_step(p, -2, 0.1, 2);
  expect("m after a gradient of -2", p.m, 0.16, "0.9 m + 0.1 g");
  expect("v after a gradient of -2", p.v, 0.019984, "0.999 v + 0.001 g²");
  const double mean = 0.16 / 0.19, variance = 0.019984 / (1 - 0.999 * 0.999);
  expect("the value after step 2", p.value, 0.9 - 0.1 * mean / std::sqrt(variance),
         "both moments are divided by 1 - factor^step; the step is against the mean");
}

EXERCISE(2, "the bytes of moments") {
  expect("rank 0 of 3, 10 parameters", moment_bytes(10, 0, 3), 32, "4 parameters, 2 moments each");
  expect("rank 2 of 3, 10 parameters", moment_bytes(10, 2, 3), 16, "the last has what is left");
  expect("rank 3 of 4, 5 parameters", moment_bytes(5, 3, 4), 0,
         "shards of 2, 2 and 1: none is left");
  expect("rank 1 of 2, 8 parameters", moment_bytes(8, 1, 2), 32, "8 / 2 is 4 exactly");
  expect("rank 0 of 1, 8 parameters", moment_bytes(8, 0, 1), 64, "one rank keeps all");
}

EXERCISE(3, "a step of ZeRO-1") {
  comm::launch(
      [](const comm::Group& world) {
        Tensor values = tensor<float>({1, 2, 3, 4, 5, 6});
        const Tensor gradients = full({6}, world.rank() + 1) * tensor<float>({1, 2, 3, 4, 5, 6});
        zero1_step(values, gradients, 0.1, world);
        expect("the values", values, tensor<float>({0.4f, 0.8f, 1.2f, 1.6f, 2, 2.4f}),
               "0.1 times the sum of three gradients is subtracted; wait() for both collectives");
      },
      3, {.group = {.timeout = std::chrono::seconds(5)}});
}
