// Accelerator: the steps of a plain loop and of Trainer, whatever the ranks and the strategy.
#include "ringlet/ringlet.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <set>

#include "../../files.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

struct Points {
  Tensor x, labels, positions;
};

Points collate(const Rows& rows) {
  std::vector<float> x;
  std::vector<std::int64_t> labels;
  std::vector<std::int32_t> positions;
  for (const std::size_t row : rows) {
    for (int i = 0; i < 4; ++i) x.push_back(std::sin(static_cast<float>(row) * 1.7f + float(i)));
    positions.insert(positions.end(), {static_cast<std::int32_t>(rows.first + labels.size()), 0});
    labels.push_back(static_cast<std::int64_t>(row % 3));
  }
  const auto n = static_cast<std::int64_t>(rows.size());
  const Device device = default_device();
  return {tensor(x, {n, 4}, device), tensor(labels, {n}, device),
          tensor(positions, {n, 2}, device)};
}

struct Net final : nn::Layer<Net> {
  Variable forward(const Variable& x, const Tensor& positions) {
    return (*last)((*dropout)(autograd::relu((*first)(x)), positions));
  }
  std::shared_ptr<nn::Linear> first = register_module("first", std::make_shared<nn::Linear>(4, 16));
  std::shared_ptr<nn::Dropout> dropout =
      register_module("dropout", std::make_shared<nn::Dropout>(0.25));
  std::shared_ptr<nn::Linear> last = register_module("last", std::make_shared<nn::Linear>(16, 3));
};

Variable loss(Net& net, const Points& batch) {
  return nn::cross_entropy(net(Variable(batch.x), batch.positions), batch.labels);
}

// 23 rows in steps of 2 x 3 for each rank. The last step of an epoch is shorter; with several ranks
// some batch of it has no rows.
constexpr std::size_t kRows = 23, kBatch = 3, kAccumulation = 2, kEpochs = 2;
constexpr std::uint64_t kSeed = 42;

struct Recipe {
  Schedule schedule = {};
  double max_grad_norm = 0;
};

std::vector<float> plain_loop(const comm::Group& world) {
  manual_seed(kSeed);
  Net net;
  DistributedDataParallel ddp(net, world);
  AdamW optimizer(net, {.lr = 0.01});
  Loader loader(kRows, collate,
                {.batch_size = kBatch, .accumulation = kAccumulation, .seed = kSeed}, world);
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch)
    for (const Points& batch : loader) {
      if (!loader.share().ends_step) {
        const NoSync no_sync = ddp.no_sync();
        loader.weigh(loss(net, batch)).backward();
        continue;
      }
      loader.weigh(loss(net, batch)).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  return parameter_values(net);
}

/// The same loop on any number of ranks, with the bits of 8.
std::vector<float> logical_loop(const comm::Group& world, Strategy strategy) {
  Accelerator accelerator({.logical_ranks = 8, .strategy = strategy}, world);
  manual_seed(kSeed);
  Net net;
  AdamW optimizer(net, {.lr = 0.01});
  Loader loader(kRows, collate, {.batch_size = 2, .seed = kSeed});
  accelerator.prepare(net, optimizer, loader);
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch)
    for (const Points& batch : loader) {
      const auto micro_batch = accelerator.accumulate();
      accelerator.backward(loss(net, batch));
      optimizer.step();
      optimizer.zero_grad();
    }
  return parameter_values(net);
}

void accelerated_epoch(Accelerator& accelerator, Net& net, Optimizer& optimizer,
                       Loader<Points>& loader) {
  for (const Points& batch : loader) {
    const auto micro_batch = accelerator.accumulate();
    accelerator.backward(loss(net, batch));
    optimizer.step();
    optimizer.zero_grad();
  }
}

std::vector<float> accelerated(const comm::Group& world, Strategy strategy, const Recipe& recipe) {
  Accelerator accelerator({.gradient_accumulation_steps = kAccumulation, .strategy = strategy},
                          world);
  manual_seed(kSeed);
  Net net;
  AdamW optimizer(net, {.lr = 0.01});
  Loader loader(kRows, collate, {.batch_size = kBatch, .seed = kSeed});
  accelerator.prepare(recipe.schedule, loader, optimizer, net);
  accelerator.clip_grad_norm(recipe.max_grad_norm);
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch)
    accelerated_epoch(accelerator, net, optimizer, loader);
  return parameter_values(net);
}

std::vector<float> trained(const comm::Group& world, Strategy strategy,
                           TrainingArguments arguments) {
  manual_seed(kSeed);
  Net net;
  arguments.num_train_epochs = kEpochs;
  arguments.per_device_train_batch_size = kBatch;
  arguments.gradient_accumulation_steps = kAccumulation;
  arguments.learning_rate = 0.01;
  arguments.seed = kSeed;
  arguments.strategy = strategy;
  Trainer trainer(
      net, kRows, collate, [&](const Points& batch) { return loss(net, batch); }, arguments, world);
  trainer.train();
  return parameter_values(net);
}

std::vector<Strategy> strategies(int ranks) {
  if (ranks == 1) return {Strategy::none, Strategy::ddp};
  return {kStrategiesOfRanks.begin(), kStrategiesOfRanks.end()};
}

/// On every rank of each world.
void in_every_world(const std::function<void(const comm::Group&, Strategy)>& run) {
  for (const int ranks : {1, 2, 3})
    for (const Strategy strategy : strategies(ranks)) {
      INFO(ranks << " ranks, " << kStrategies(strategy));
      comm::launch([&](const comm::Group& world) { run(world, strategy); }, ranks);
    }
}

struct Outer final : nn::Layer<Outer> {
  Variable forward(const Points& batch) { return loss(*net, batch); }
  std::shared_ptr<Net> net = register_module("net", std::make_shared<Net>());
};

}  // namespace

TEST_CASE("a plain loop, Accelerator and Trainer end with the same bits") {
  std::mutex mutex;
  in_every_world([&](const comm::Group& world, Strategy strategy) {
    const std::vector<float> plain = plain_loop(world);
    const std::vector<float> prepared = accelerated(world, strategy, {});
    const std::vector<float> by_trainer =
        trained(world, strategy, {.lr_scheduler_type = Decay::constant, .max_grad_norm = 0});
    const std::lock_guard lock(mutex);
    CHECK(prepared == plain);
    CHECK(by_trainer == plain);
  });
}

TEST_CASE("a loss over sentences and its loader are prepared like a net") {
  std::mutex mutex;
  const auto plain = [](const comm::Group& world) {
    tiny::Model model;
    const DistributedDataParallel ddp(*model.loss, world);
    tiny::Training training(model, tiny::loader_options(world.rank(), world.size(), kAccumulation));
    for (const models::PackedBatch& batch : training.loader) {
      const bool updates = training.loader.share().ends_step;
      const auto paused = updates ? nullptr : std::make_unique<NoSync>(*model.loss);
      (*model.loss)(batch).backward();
      if (updates) training.update();
    }
    return parameter_values(*model.loss);
  };
  const auto prepared = [](const comm::Group& world) {
    Accelerator accelerator({.gradient_accumulation_steps = kAccumulation}, world);
    tiny::Model model;
    tiny::Training training(model, tiny::loader_options(0, 1));
    accelerator.prepare(*model.loss, training.optimizer, training.loader);
    for (const models::PackedBatch& batch : training.loader) {
      const auto micro_batch = accelerator.accumulate();
      accelerator.backward((*model.loss)(batch));
      training.update();
    }
    return parameter_values(*model.loss);
  };
  for (const int ranks : {1, 2})
    comm::launch(
        [&](const comm::Group& world) {
          const std::vector<float> by_hand = plain(world), by_accelerator = prepared(world);
          const std::vector<float> before = parameter_values(*tiny::Model().loss);
          const std::lock_guard lock(mutex);
          CHECK(by_accelerator == by_hand);
          CHECK(by_hand != before);
        },
        ranks);
}

TEST_CASE("Accelerator schedules and clips as Trainer does") {
  std::mutex mutex;
  in_every_world([&](const comm::Group& world, Strategy strategy) {
    const std::size_t rows = kBatch * kAccumulation * static_cast<std::size_t>(world.size());
    const auto steps = static_cast<std::int64_t>((kRows + rows - 1) / rows * kEpochs);
    const std::vector<float> prepared =
        accelerated(world, strategy, {Schedule(Decay::linear, steps, /*warmup_steps=*/1), 0.1});
    const std::vector<float> by_trainer =
        trained(world, strategy,
                {.lr_scheduler_type = Decay::linear, .warmup_steps = 1, .max_grad_norm = 0.1});
    const std::lock_guard lock(mutex);
    CHECK(prepared == by_trainer);
    CHECK(prepared != plain_loop(comm::Group()));
  });
}

TEST_CASE("figures are gathered in the order of the rows, each once") {
  std::mutex mutex;
  for (const int ranks : {1, 2, 3})
    comm::launch(
        [&](const comm::Group& world) {
          Accelerator accelerator({}, world);
          Loader loader(7, [](const Rows& rows) { return std::vector(rows.begin(), rows.end()); },
                        {.batch_size = 2, .shuffle = false});
          accelerator.prepare(loader);
          std::vector<std::int64_t> seen;
          for (const std::vector<std::size_t>& batch : loader) {
            const std::vector<std::int64_t> values(batch.begin(), batch.end());
            const Tensor rows =
                tensor(values, {static_cast<std::int64_t>(values.size()), 1}, default_device());
            const Tensor all = accelerator.gather_for_metrics(rows);
            const auto found = all.to_vector<std::int64_t>();
            seen.insert(seen.end(), found.begin(), found.end());
            const std::lock_guard lock(mutex);
            CHECK(all.shape() == Shape{all.size(0), 1});
          }
          // Outside a loop all rows count, however many each rank has.
          const Tensor uneven = accelerator.gather(ones({world.rank() + 1, 2}));
          const std::lock_guard lock(mutex);
          CHECK(seen == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6});
          CHECK(uneven.size(0) == world.size() * (world.size() + 1) / 2);
        },
        ranks);
}

TEST_CASE("with four logical ranks on three under fsdp, too, each row is gathered once") {
  std::mutex mutex;
  comm::launch(
      [&](const comm::Group& world) {
        Accelerator accelerator({.logical_ranks = 4, .strategy = Strategy::fsdp}, world);
        Loader loader(7, [](const Rows& rows) { return std::vector(rows.begin(), rows.end()); },
                      {.batch_size = 1, .shuffle = false});
        accelerator.prepare(loader);
        std::multiset<float> seen;
        for (const std::vector<std::size_t>& batch : loader) {
          const Tensor row = full({1}, static_cast<double>(batch[0]));
          for (const float found : accelerator.gather_for_metrics(row).to_vector())
            seen.insert(found);
        }
        const std::lock_guard lock(mutex);
        CHECK(seen == std::multiset<float>{0, 1, 2, 3, 4, 5, 6});
      },
      3);
}

TEST_CASE("a saved state continues with the same bits under another strategy") {
  const TemporaryFolder folder;
  std::mutex mutex;
  const auto continued = [&](const comm::Group& world, Strategy saves, Strategy loads) {
    const std::filesystem::path state = folder / "state";
    const auto begin = [&](Strategy strategy, std::uint64_t seed, auto&& use) {
      Accelerator accelerator({.gradient_accumulation_steps = 2, .strategy = strategy}, world);
      manual_seed(seed);
      Net net;
      AdamW optimizer(net, {.lr = 0.01});
      Loader loader(kRows, collate, {.batch_size = kBatch, .seed = kSeed});
      accelerator.prepare(net, optimizer, loader);
      use(accelerator, net, optimizer, loader);
      return parameter_values(net);
    };
    const std::vector<float> whole =
        begin(saves, kSeed, [&](auto& accelerator, auto& net, auto& optimizer, auto& loader) {
          accelerated_epoch(accelerator, net, optimizer, loader);
          accelerator.save_state(state);
          accelerated_epoch(accelerator, net, optimizer, loader);
        });
    const std::vector<float> resumed =
        begin(loads, kSeed + 1, [&](auto& accelerator, auto& net, auto& optimizer, auto& loader) {
          accelerator.load_state(state);
          accelerated_epoch(accelerator, net, optimizer, loader);
        });
    const std::lock_guard lock(mutex);
    CHECK(resumed == whole);
  };
  comm::launch(
      [&](const comm::Group& world) {
        continued(world, Strategy::fsdp, Strategy::ddp);
        continued(world, Strategy::ddp, Strategy::zero2);
      },
      2);

  // One rank has steps of half as many rows.
  Accelerator accelerator({.gradient_accumulation_steps = 2}, comm::Group());
  Net net;
  AdamW optimizer(net, {.lr = 0.01});
  Loader loader(kRows, collate, {.batch_size = kBatch, .seed = kSeed});
  accelerator.prepare(net, optimizer, loader);
  const std::vector<float> before = parameter_values(net);
  CHECK_THROWS_WITH_AS(accelerator.load_state(folder / "state"),
                       doctest::Contains("rows of a step (--batch, --devices, "
                                         "--gradient-accumulation-steps) 12, now 6"),
                       InputError);
  CHECK(parameter_values(net) == before);
}

TEST_CASE("a saved state has the position in each loader that exists") {
  const TemporaryFolder folder;
  const auto begin = [](auto&& use) {
    Accelerator accelerator({}, comm::Group());
    Net net;
    AdamW optimizer(net, {.lr = 0.01});
    Loader first(kRows, collate, {.batch_size = kBatch});
    Loader second(kRows, collate, {.batch_size = 2, .seed = 1});
    accelerator.prepare(net, optimizer, first);
    use(accelerator, second, [&] { accelerated_epoch(accelerator, net, optimizer, first); });
  };
  begin([&](Accelerator& accelerator, auto& second, auto&& epoch) {
    {
      Loader temporary(kRows, collate, {.batch_size = 1});
      accelerator.prepare(temporary);
    }
    accelerator.prepare(second);
    epoch();
    second.next();
    second.next();
    CHECK(second.position() == Position{0, 2});
    accelerator.save_state(folder / "state");
  });
  begin([&](Accelerator& accelerator, auto& second, auto&&) {
    CHECK_THROWS_WITH_AS(accelerator.load_state(folder / "state"),
                         doctest::Contains("loader 2: --seed 1, now none"), InputError);
    accelerator.prepare(second);
    accelerator.load_state(folder / "state");
    CHECK(second.position() == Position{0, 2});
  });
}

TEST_CASE("the main process comes first, and an accelerator may outlive its module") {
  std::atomic<int> arrived = 0;
  std::atomic<int> first = -1;
  comm::launch(
      [&](const comm::Group& world) {
        Accelerator accelerator({}, world);
        accelerator.main_process_first([&] {
          if (arrived++ == 0) first = world.rank();
        });
        accelerator.wait_for_everyone();
        Net net;
        accelerator.prepare(net);
      },
      3);
  CHECK(arrived == 3);
  CHECK(first == 0);
}

TEST_CASE("accumulation skips the steps of an optimizer that was made of a part") {
  Outer outer;
  AdamW optimizer(*outer.net, {.lr = 0.01});
  Loader loader(kRows, collate, {.batch_size = kBatch});
  Accelerator accelerator({.gradient_accumulation_steps = 2}, comm::Group());
  accelerator.prepare(optimizer, outer, loader);
  const std::vector<float> before = parameter_values(outer);
  int batches = 0;
  for (const Points& batch : loader) {
    const auto micro_batch = accelerator.accumulate();
    accelerator.backward(outer(batch));
    optimizer.step();
    optimizer.zero_grad();
    CHECK((parameter_values(outer) == before) == (batches == 0));
    if (++batches == 2) break;
  }
}

TEST_CASE("split batches are those of all ranks together") {
  std::mutex mutex;
  comm::launch(
      [&](const comm::Group& world) {
        Accelerator accelerator({.split_batches = true}, world);
        Loader loader(kRows, collate, {.batch_size = 6});
        accelerator.prepare(loader);
        Loader odd(kRows, collate, {.batch_size = 5});
        const std::lock_guard lock(mutex);
        CHECK(loader.arguments().at(kRowsOfAStep) == "6");
        CHECK_THROWS_WITH_AS(accelerator.prepare(odd),
                             "split_batches: expected a batch size divisible by 2 ranks, found 5",
                             InputError);
      },
      2);
}

TEST_CASE("a loop without its parts is an error that names them") {
  Accelerator accelerator({}, comm::Group());
  CHECK_THROWS_WITH_AS(accelerator.backward(Variable(ones({1}))),
                       "[accelerator] prepare a module, its optimizer and a loader first", Error);
  Net net, other;
  accelerator.prepare(net);
  CHECK_THROWS_AS(accelerator.prepare(other), Error);
  CHECK_THROWS_AS(Accelerator({.strategy = Strategy::dp}, comm::Group()), InputError);
}

TEST_CASE("an accelerated loop over logical ranks ends with one result on any number of ranks") {
  const auto on = [](int n, Strategy strategy) {
    std::vector<float> found;
    comm::launch(
        [&](const comm::Group& world) {
          const std::vector<float> mine = logical_loop(world, strategy);
          if (world.rank() == 0) found = mine;
        },
        n, {.ranks = comm::Ranks::threads});
    return found;
  };
  const std::vector<float> expected = on(8, Strategy::ddp);
  CHECK(on(1, Strategy::none) == expected);
  CHECK(on(3, Strategy::zero1) == expected);
  CHECK(on(3, Strategy::fsdp) == expected);
}
