// Exercises of lesson 15: what each strategy moves and keeps.
#include "ringlet.h"

using namespace ringlet;

// 1. The numbers that a rank sends in a step, for `parameters` on n ranks. An all-gather or a
// reduce-scatter sends (n - 1) / n of them; an all-reduce is one of each.
double numbers_moved(train::Strategy strategy, double parameters, int n) {
  // gap: DDP and both ZeROs have two rounds. FSDP gathers again for its backward: three.
  const int rounds = strategy == train::Strategy::fsdp ? 3 : 2;
  return rounds * parameters * (n - 1) / n;
  // end: return 0;
}

// 2. The rank that updates parameter `index`, of `parameters` cut into n equal shards (ZeRO-1).
int owner_of(std::int64_t index, std::int64_t parameters, std::int64_t n) {
  // gap: the last shard may be shorter, so the length of a shard is rounded up.
  const std::int64_t shard = (parameters + n - 1) / n;
  return static_cast<int>(index / shard);
  // end: return 0;
}

// 3. The bytes of a rank with AdamW in f32. A parameter has a value, a gradient and two moments, of
// 4 bytes each. Each strategy divides more of them among the ranks.
double bytes_kept(train::Strategy strategy, double parameters, int n) {
  // gap: DDP divides nothing, ZeRO-1 the moments, ZeRO-2 the gradients too, FSDP also the values.
  const double value = strategy == train::Strategy::fsdp ? 4.0 / n : 4;
  const double gradient =
      strategy == train::Strategy::fsdp || strategy == train::Strategy::zero2 ? 4.0 / n : 4;
  const double moments = strategy == train::Strategy::ddp ? 8 : 8.0 / n;
  return parameters * (value + gradient + moments);
  // end: return 0;
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "the numbers that move") {
  using train::Strategy;
  const char* hint = "rounds times (n - 1) / n times the parameters";
  expect("DDP, 100 parameters, 4 ranks", numbers_moved(Strategy::ddp, 100, 4), 150, hint);
  expect("ZeRO-1, 100 parameters, 2 ranks", numbers_moved(Strategy::zero1, 100, 2), 100, hint);
  expect("ZeRO-2, 100 parameters, 2 ranks", numbers_moved(Strategy::zero2, 100, 2), 100, hint);
  expect("FSDP, 100 parameters, 4 ranks", numbers_moved(Strategy::fsdp, 100, 4), 225, hint);
  expect("FSDP, 100 parameters, 1 rank", numbers_moved(Strategy::fsdp, 100, 1), 0, hint);
}

EXERCISE(2, "the owner of a parameter") {
  const std::vector<int> owners{0, 0, 0, 0, 1, 1, 1, 1, 2, 2};  // 10 parameters, 3 ranks
  for (std::size_t i = 0; i < owners.size(); ++i)
    expect(str("the owner of parameter ", i, " of 10 on 3 ranks"),
           owner_of(static_cast<std::int64_t>(i), 10, 3), owners[i], "10 / 3 rounded up is 4");
  expect("the owner of parameter 7 of 8 on 4 ranks", owner_of(7, 8, 4), 3, "8 / 4 is 2 exactly");
}

EXERCISE(3, "the bytes of a rank") {
  using train::Strategy;
  const char* hint = "4 bytes of value, 4 of gradient, 8 of moments; divide what is sharded by n";
  expect("DDP, 10 parameters, 4 ranks", bytes_kept(Strategy::ddp, 10, 4), 160, hint);
  expect("ZeRO-1, 10 parameters, 4 ranks", bytes_kept(Strategy::zero1, 10, 4), 100, hint);
  expect("ZeRO-2, 10 parameters, 4 ranks", bytes_kept(Strategy::zero2, 10, 4), 70, hint);
  expect("FSDP, 10 parameters, 4 ranks", bytes_kept(Strategy::fsdp, 10, 4), 40, hint);
}
