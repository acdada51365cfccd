// Lesson 12: ZeRO-1 by hand. A rank owns AdamW's two moments of its shard, and updates that shard.
#include <doctest/doctest.h>

#include <cmath>

#include "in_rank_order.h"

using namespace ringlet;

namespace {
constexpr std::int64_t kOutputs = 192, kInputs = 64, kOwned = kOutputs * kInputs / 3;

// A step of AdamW for the shard of this rank; `m` and `v` have the shard's elements alone.
void step_of_shard(Tensor& values, const Tensor& gradients, Tensor& m, Tensor& v, int step,
                   const comm::Group& world) {
  const comm::Pieces pieces = comm::even_pieces(values.numel(), world.size());
  Tensor grad = empty({kOwned});
  world.reduce_scatter(grad, gradients, pieces).wait();  // the sum over ranks, of my shard
  m = m * 0.9 + grad * 0.1;
  v = v * 0.999 + square(grad) * 0.001;
  const Tensor mean = m / (1 - std::pow(0.9, step)), variance = v / (1 - std::pow(0.999, step));
  const std::int64_t begin = world.rank() * kOwned;
  const Tensor mine = values.slice(begin, begin + kOwned) - 0.01 * (mean / (sqrt(variance) + 1e-8));
  world.all_gather(values, mine, pieces).wait();  // the new values of all ranks
}
}  // namespace

TEST_CASE("12 ZeRO-1") {
  comm::launch(
      [](const comm::Group& world) {
        manual_seed(12);
        nn::Linear by_hand(kInputs, kOutputs, false), copy(kInputs, kOutputs, false);
        copy.weight.mutable_tensor().copy_(by_hand.weight.tensor());
        train::ShardedDataParallel zero1(copy, world);  // the library's form
        train::AdamW optimizer(copy, {.lr = 0.01});
        Tensor m = zeros({kOwned}), v = zeros({kOwned});
        for (int step = 1; step <= 3; ++step) {
          const Variable x(full({2, kInputs}, step + world.rank()));
          autograd::sum(autograd::square(by_hand(x))).backward();
          Tensor values = by_hand.weight.mutable_tensor().view({-1});
          step_of_shard(values, by_hand.weight.grad().view({-1}), m, v, step, world);
          by_hand.weight.zero_grad();

          autograd::sum(autograd::square(copy(x))).backward();
          optimizer.step();
          optimizer.zero_grad();
        }
        const nn::LocalSlice slice = copy.arena()->local_slices().at(0);
        std::string picture;  // a character is a 24th of the parameters
        for (std::int64_t i = 0; i < 24; ++i)
          picture += i * kOwned / 8 >= slice.begin && i * kOwned / 8 < slice.end ? '#' : '.';
        print_in_rank_order(
            world, str("rank ", world.rank(), " keeps m and v of  ", picture, "  elements ",
                       slice.begin, " to ", slice.end - 1, ", ", m.nbytes() + v.nbytes(),
                       " bytes of ", 3 * (m.nbytes() + v.nbytes())));
        CHECK((slice.begin == world.rank() * kOwned && slice.end == slice.begin + kOwned));
        CHECK(max(abs(by_hand.weight.tensor() - copy.weight.tensor())).item() < 1e-6f);
      },
      3);
}
