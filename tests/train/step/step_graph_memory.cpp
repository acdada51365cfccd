// When captured steps allocate, the number of graphs, and the state after a capture.
#include <doctest/doctest.h>

#include <set>

#include "graph_steps.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/train/data/loader.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// The state after a step.
struct Left {
  double loss;
  std::vector<bool> reached;
  std::vector<float> grad;  // of the classifier
  std::uint64_t generator_step;
  std::vector<std::int64_t> updates;  // of each parameter

  bool operator==(const Left&) const = default;
};

Left left_by(GraphSteps& steps, const models::PackedBatch& batch, const StepGraphs::Work& work) {
  Left left{};
  left.loss = steps.run(batch, work);
  for (const nn::Parameter& parameter : steps.loss.parameters())
    left.reached.push_back(parameter.grad().defined());
  left.grad = steps.loss.parameter("classifier.weight").grad().to_vector();
  left.generator_step = default_generator().step;
  for (const auto& state : steps.optimizer.updates()) left.updates.push_back(state.steps);
  steps.optimizer.zero_grad();
  return left;
}

std::uint64_t taken(Device device) { return memory_stats(device).system_allocations; }

}  // namespace

TEST_CASE(
    "no step behind a bucket's first takes memory from the device, to the bits of eager ones") {
  const GraphDevice device;
  const AdamWOptions adamw{.lr = 1e-3, .weight_decay = 0.01, .max_grad_norm = 0.5};
  std::vector<Left> left[2];
  std::vector<float> values[2];
  for (const StepGraphMode mode : {StepGraphMode::automatic, StepGraphMode::off}) {
    const bool off = mode == StepGraphMode::off;
    // Large enough for buckets to need separate segments.
    GraphSteps steps(encoder_on(device.device, 0.1, 128), device.device, adamw, mode);
    std::set<std::size_t> seen;
    std::int32_t salt = 0;
    for (const std::size_t rows : {32, 32, 64, 32, 96, 64, 96, 16, 96, 16, 32, 128, 64, 128, 16}) {
      const std::uint64_t before = taken(device.device);
      const models::PackedBatch batch = pairs_of(rows, ++salt, 10);
      left[off].push_back(left_by(steps, batch, work_of(steps.loss)));
      const bool is_first = seen.insert(rows).second;
      CAPTURE(salt);
      if (!off && !is_first) CHECK(taken(device.device) == before);
    }
    CHECK(steps.graphs.captured() == (off ? 0 : seen.size()));
    CHECK(steps.graphs.replayed() == (off ? 0 : left[off].size() - seen.size()));
    CHECK(steps.notes.empty());
    values[off] = parameter_values(steps.loss);
  }
  CHECK(left[0] == left[1]);
  CHECK(values[0] == values[1]);
}

TEST_CASE("a capture that fails behind its bucket's first step leaves that step as it is") {
  const GraphDevice device;
  using Spoil = std::function<Tensor(const std::function<Tensor()>& work)>;
  const auto train = [&](StepGraphMode mode, const Spoil& spoil) {
    GraphSteps steps(encoder_on(device.device, 0.1), device.device,
                     {.lr = 1e-2, .max_grad_norm = 0.5}, mode);
    std::vector<Left> left;
    for (std::int32_t salt = 0; salt < 4; ++salt) {
      left.push_back(left_by(steps, pairs_of(4, salt), [&](const models::PackedBatch& batch) {
        const auto work = [&] { return work_of(steps.loss)(batch); };
        return is_capturing() ? spoil(work) : work();
      }));
      set_memory_limit(device.device, 0);
    }
    CHECK(steps.graphs.captured() == 0);
    return std::tuple(left, parameter_values(steps.loss), steps.notes);
  };
  const auto expected = train(StepGraphMode::off, {});
  CHECK(std::get<2>(expected).empty());
  const auto check_same = [&](const char* why, const Spoil& spoil) {
    const auto [left, values, notes] = train(StepGraphMode::automatic, spoil);
    CHECK(left == std::get<0>(expected));
    CHECK(values == std::get<1>(expected));
    REQUIRE(notes.size() == 1);
    CHECK(notes[0].starts_with("steps are not captured as graphs: "));
    const std::string& note = notes[0];
    CHECK_MESSAGE(note.find(why) != std::string::npos, note);
  };
  check_same("limit", [&](const auto& work) {
    set_memory_limit(device.device, memory_stats(device.device).allocated);
    return work();
  });
  check_same("cannot be captured", [](const auto& work) {
    const Tensor value = work();
    static_cast<void>(value.item());
    return value;
  });
  Tensor kept;
  check_same("outlive", [&](const auto& work) { return kept = work(); });
}

TEST_CASE("a step that is replayed allocates nothing; another shape has a graph of its own") {
  const GraphDevice device;
  GraphSteps steps(device.device);
  steps.step(pairs_of(4, 0));
  CHECK(steps.graphs.captured() == 1);
  CHECK(steps.graphs.replayed() == 0);
  const MemoryStats before = memory_stats(device.device);
  CHECK(before.graphs > 0);
  const double first = steps.step(pairs_of(4, 2));
  CHECK(steps.step(pairs_of(4, 3, 6)) != first);  // other lengths, the same bucket
  CHECK(steps.step(pairs_of(4, 2)) == first);
  const MemoryStats after = memory_stats(device.device);
  CHECK(after.allocations == before.allocations);
  CHECK(after.reserved == before.reserved);
  CHECK(steps.graphs.replayed() == 3);

  for (int i = 0; i < 3; ++i) steps.step(pairs_of(5, i));
  CHECK(steps.graphs.captured() == 2);
  CHECK(memory_stats(device.device).graphs == before.graphs);  // it is shared by graphs
  CHECK(steps.step(pairs_of(4, 2)) == first);

  // A batch beyond the buckets has no graph.
  const auto replayed = steps.graphs.replayed();
  for (int i = 0; i < 3; ++i) steps.step(pairs_of(250, i, 7));
  CHECK(steps.graphs.replayed() == replayed);

  // Freezes a parameter that the graphs would train.
  steps.loss.parameter("classifier.bias").set_requires_grad(false);
  CHECK(steps.step(pairs_of(4, 2)) == first);
  CHECK(steps.graphs.replayed() == replayed);
  CHECK(steps.notes.empty());
}

TEST_CASE("as many graphs as there may be: the one that was not used for longest goes") {
  const GraphDevice device;
  GraphSteps steps(device.device);
  const auto captures = [&](std::size_t rows) {
    const std::size_t before = steps.graphs.captured();
    for (int i = 0; i < 2; ++i) steps.step(pairs_of(rows, 0));
    return steps.graphs.captured() - before;
  };
  for (std::size_t rows = 1; rows <= StepGraphs::kMostGraphs; ++rows) CHECK(captures(rows) == 1);
  CHECK(captures(1) == 0);
  CHECK(captures(StepGraphs::kMostGraphs + 1) == 1);  // evicts 2
  CHECK(captures(1) == 0);
  CHECK(captures(2) == 1);
}

TEST_CASE("the first step of a key draws once") {
  const GraphDevice device;
  GraphSteps steps(device.device);
  for (const std::uint32_t draws : {1, 0, 0}) {
    const std::uint32_t before = default_generator().draws;
    steps.graphs.run(pairs_of(4, 0), [&](const models::PackedBatch& on_device) {
      static_cast<void>(uniform({1}));
      return work_of(steps.loss)(on_device);
    });
    CHECK(default_generator().draws == before + draws);
    steps.optimizer.finish_step();
    steps.optimizer.zero_grad();
  }
}

TEST_CASE("rows are their own bucket: epochs with a short last batch need two graphs") {
  const GraphDevice device;
  GraphSteps steps(device.device);
  Loader loader({words::dataset(44, 3)}, words::tokenizer(), {.batch_size = 8});
  std::set<std::int64_t> rows;
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const models::PackedBatch& batch : loader) {
      rows.insert(batch.rows);
      steps.step(batch);
    }
  CHECK(rows == std::set<std::int64_t>{4, 8});
  CHECK(steps.graphs.captured() == 2);
  CHECK(steps.graphs.replayed() == 3 * 6 - 2);
}
