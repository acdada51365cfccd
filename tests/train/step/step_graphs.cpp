// Captured steps compared with eager ones, on a GPU or, if there is none, on delayed_device.h.
#include "ringlet/train/step/step_graphs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "../words.h"
#include "graph_steps.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/models/losses/loss.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/train/trainer.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// An encoder with a loss for each of two data sets.
struct GraphSetup {
  explicit GraphSetup(Device device, double dropout = 0)
      : encoder(encoder_on(device, dropout)),
        loss(two_losses<models::CosineSimilarityLoss>(encoder)) {}
  models::SentenceEncoder encoder;
  std::shared_ptr<models::MultiLoss> loss;
};

/// A user's loss: it does not declare whether it can be captured, or reads its value.
struct OwnLoss final : models::Loss {
  OwnLoss(std::shared_ptr<models::Loss> inner, bool reads) : inner(inner), reads(reads) {
    register_module("", std::move(inner));
  }
  const char* kind() const override { return "OwnLoss"; }
  bool is_capturable() const override { return reads; }
  Variable forward(const models::PackedBatch& batch) override {
    const Variable value = (*inner)(batch);
    if (reads) static_cast<void>(value.item());
    return value;
  }
  std::shared_ptr<models::Loss> inner;
  bool reads;
};

/// The numbers of tokens in calls of encoders.
struct TokenCounts final : KernelObserver {
  TokenCounts() { kernel_observer = this; }
  ~TokenCounts() { kernel_observer = nullptr; }
  TokenCounts(const TokenCounts&) = delete;
  TokenCounts& operator=(const TokenCounts&) = delete;
  void before(const char* name, const void* args, Device) override {
    if (std::string(name) != "embedding_sum_layer_norm") return;
    const std::lock_guard lock(mutex);  // dp has a thread per device
    seen.insert(static_cast<const EmbeddingSumArgs*>(args)->tokens);
  }
  void after(const char*, const void*, Device) override {}
  std::mutex mutex;
  std::set<std::int64_t> seen;
};

struct TrainedSteps {
  std::vector<double> losses;
  std::vector<float> values;
  std::vector<std::string> notes;
  TrainingResult result;
};

TrainedSteps train_steps(models::Loss& loss, const Datasets& data, TrainingArguments arguments,
                         const std::function<void()>& between = {}) {
  TrainedSteps out;
  Trainer trainer(loss, data, words::tokenizer(), arguments);
  trainer.add_callback({.on_step_end =
                            [&](const StepReport& at) {
                              out.losses.push_back(at.result.loss);
                              if (between) between();
                            },
                        .on_note = [&](const std::string& line) { out.notes.push_back(line); }});
  out.result = trainer.train();
  out.values = parameter_values(loss);
  return out;
}

TrainingArguments arguments_of(DType dtype = DType::f32) {
  return {.max_steps = 12,
          .per_device_train_batch_size = 8,
          .learning_rate = 1e-2,
          .warmup_ratio = 0.3,
          .weight_decay = 0.01,
          .dtype = dtype};
}

}  // namespace

TEST_CASE("captured steps have the bits of eager ones: two losses, dropout, a schedule, clipping") {
  const GraphDevice graphs;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(dtype);
    TrainingArguments arguments = arguments_of(dtype);
    const Datasets data{words::dataset(48, 3), words::scored_dataset(40)};
    const GraphSetup captured(graphs.device, 0.1), eager(graphs.device, 0.1);
    // Evaluation between steps creates other forms of weights.
    const std::vector<std::string> texts{words::text(1), words::text(6), words::text(11)};
    const auto between = [&] {
      static_cast<void>(captured.encoder.encode(texts, {.batch_tokens = 4}));
    };
    const TrainedSteps a = train_steps(*captured.loss, data, arguments, between);
    arguments.step_graphs = StepGraphMode::off;
    const TrainedSteps b = train_steps(*eager.loss, data, arguments);
    CHECK(a.notes.empty());
    CHECK(a.result.replayed_steps >= 6);
    CHECK(b.result.replayed_steps == 0);
    CHECK(a.losses.size() == 12);
    CHECK(a.losses == b.losses);
    CHECK(a.values == b.values);
  }
}

TEST_CASE("work that cannot be captured is launched op by op, and one line says why") {
  const GraphDevice graphs;
  const Datasets data{words::dataset(48, 3), words::scored_dataset(40)};
  const auto notes = [&](const TrainingArguments& arguments) {
    const GraphSetup setup(graphs.device), off(graphs.device);
    const TrainedSteps found = train_steps(*setup.loss, data, arguments);
    TrainingArguments eager = arguments;
    eager.step_graphs = StepGraphMode::off;
    const TrainedSteps expected = train_steps(*off.loss, data, eager);
    CHECK(found.result.replayed_steps == 0);
    CHECK(found.losses == expected.losses);
    CHECK(found.values == expected.values);
    CHECK(expected.notes.empty());
    REQUIRE(found.notes.size() == 1);
    return found.notes[0];
  };
  TrainingArguments arguments = arguments_of();
  arguments.gradient_accumulation_steps = 2;
  CHECK(notes(arguments) ==
        "steps are not captured as graphs: a step of several batches is not captured");
}

TEST_CASE("a loss that says nothing, or reads on the host, is never captured") {
  const GraphDevice graphs;
  const auto note_of = [&](bool reads) {
    const models::SentenceEncoder encoder = encoder_on(graphs.device);
    OwnLoss loss(std::make_shared<models::SoftmaxLoss>(encoder, 3), reads);
    const TrainedSteps found = train_steps(loss, {words::dataset(48, 3)}, arguments_of());
    CHECK(found.losses.size() == 12);
    CHECK(found.result.replayed_steps == 0);
    REQUIRE(found.notes.size() == 1);
    return found.notes[0];
  };
  CHECK(note_of(false) ==
        "steps are not captured as graphs: OwnLoss does not say that it can be captured");
  CHECK(
      note_of(true) ==
      "steps are not captured as graphs: [graph] a copy to or from the device cannot be captured");
}

TEST_CASE("batches of steps that are never captured are filled up, too, if their loss takes that") {
  const GraphDevice graphs;
  const auto counts_of = [&](const TrainingArguments& arguments, bool own) {
    const models::SentenceEncoder encoder = encoder_on(graphs.device);
    const auto loss = std::make_shared<models::SoftmaxLoss>(encoder, 3);
    OwnLoss owned(loss, /*reads=*/false);
    const TokenCounts counts;
    train_steps(own ? static_cast<models::Loss&>(owned) : *loss, {words::dataset(48, 3)},
                arguments);
    REQUIRE(!counts.seen.empty());
    return counts.seen;
  };
  const auto fills = [&](const TrainingArguments& arguments, bool own) {
    const std::set<std::int64_t> counts = counts_of(arguments, own);
    return std::all_of(counts.begin(), counts.end(),
                       [](std::int64_t n) { return n % models::kBucketStep == 0; });
  };
  TrainingArguments arguments = arguments_of();
  arguments.gradient_accumulation_steps = 2;
  CHECK(fills(arguments, /*own=*/false));
  CHECK(!fills(arguments, /*own=*/true));  // it has not declared support
  arguments = arguments_of();
  CHECK(!fills(arguments, /*own=*/true));
  arguments.strategy = Strategy::dp;
  arguments.devices = {graphs.device, graphs.device};
  arguments.per_device_train_batch_size = 4;
  CHECK(fills(arguments, /*own=*/false));
}

TEST_CASE("hooks, gradients that are there and watched kernels are never passed over") {
  const GraphDevice device;
  GraphSteps steps(device.device);
  const models::PackedBatch batch = pairs_of(4, 0);
  const nn::Parameter weight = steps.loss.parameter("classifier.weight");
  for (int i = 0; i < 3; ++i) steps.step(batch);
  CHECK(steps.graphs.replayed() == 2);
  steps.run(batch);
  const std::vector<float> once = weight.grad().to_vector();
  steps.run(batch);  // accumulates
  CHECK(weight.grad().to_vector()[0] == doctest::Approx(2 * once[0]));
  CHECK(steps.graphs.replayed() == 3);
  steps.optimizer.zero_grad();

  struct Watcher final : KernelObserver {
    void before(const char*, const void*, Device) override { ++calls; }
    void after(const char*, const void*, Device) override {}
    int calls = 0;
  } watcher;
  kernel_observer = &watcher;
  steps.step(batch);
  kernel_observer = nullptr;
  CHECK(watcher.calls > 10);
  CHECK(steps.graphs.replayed() == 3);

  int ready = 0;
  const auto hook = weight.register_ready_hook([&] { ++ready; });
  for (int i = 0; i < 3; ++i) steps.step(batch);
  CHECK(ready == 3);
  REQUIRE(steps.notes.size() == 1);
  CHECK(steps.notes[0].find("hooks of 'classifier.weight'") != std::string::npos);
}

TEST_CASE("keys of steps: what fits no bucket has none, and all that a graph fixes is in them") {
  const models::PackedBatch batch = pairs_of(4, 0);
  const auto key = step_key(batch, DType::f32, true);
  REQUIRE(key.has_value());
  CHECK(key->tokens == 64);
  CHECK(key->length_class == 32);
  CHECK(step_key(pairs_of(4, 1, 6), DType::f32, true) == key);
  CHECK(step_key(pairs_of(5, 0), DType::f32, true) != key);
  CHECK(step_key(pairs_of(4, 0, 9), DType::f32, true) != key);
  CHECK(step_key(batch, DType::bf16, true) != key);
  CHECK(step_key(batch, DType::f32, false) != key);
  models::PackedBatch other = batch;
  other.global_rows = 8;
  CHECK(step_key(other, DType::f32, true) != key);
  other = batch;
  other.dataset = 1;
  CHECK(step_key(other, DType::f32, true) != key);
  other = batch;
  other.labels = Tensor();
  CHECK(step_key(other, DType::f32, true) != key);
  other = batch;
  other.max_length = 513;
  CHECK(!step_key(other, DType::f32, true));
  CHECK(!step_key(pairs_of(250, 0, 7), DType::f32, true));
  CHECK(!step_key(models::BatchBuilder(2).build(), DType::f32, true));
  CHECK(kStepGraphModes.parse("auto") == StepGraphMode::automatic);
  CHECK(kStepGraphModes.parse("off") == StepGraphMode::off);
  CHECK_THROWS_AS(kStepGraphModes.parse("on"), InputError);
}
