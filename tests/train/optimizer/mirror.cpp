// The optimizer's rounded copy of an arena (train/optimizer/rounded_mirror.h) in bf16 steps. Runs
// on a GPU or, if there is none, on an emulated asynchronous device.
#include <doctest/doctest.h>

#include <cmath>

#include "../results.h"
#include "../step/graph_device.h"
#include "ringlet/core/ops/fill.h"
#include "ringlet/models/losses/loss.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/nn/pack.h"
#include "ringlet/train/optimizer/update_rules.h"
#include "ringlet/train/step/step_graphs.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr std::size_t kRoomForAll = std::size_t{1} << 40;

models::PackedBatch batch_of(std::int32_t salt, std::size_t dataset) {
  models::BatchBuilder builder(2);
  for (std::int32_t row = 0; row < 4; ++row) {
    const std::vector<std::int32_t> first{words::kA, words::kA + (salt + row) % 4};
    const std::vector<std::int32_t> second{words::kB, words::kB, words::kA};
    const std::span<const std::int32_t> texts[] = {first, second};
    builder.add_row(texts, row);
    builder.add_label(row % 3);
  }
  models::PackedBatch batch = builder.build();
  batch.dataset = dataset;
  return batch;
}

/// Counts casts from a storage.
struct Casts final : KernelObserver {
  void before(const char* name, const void* args, Device) override {
    if (std::string(name) != "cast" || !of) return;
    const auto* const in = static_cast<const std::byte*>(static_cast<const CastArgs*>(args)->in);
    count += in >= of->data() && in < of->data() + of->nbytes();
  }
  void after(const char*, const void*, Device) override {}
  const Storage* of = nullptr;
  int count = 0;
};

/// An encoder in bf16 with two heads; each batch reaches one of them.
struct Model {
  explicit Model(Device device)
      : device(device),
        encoder(encoder_on(device)),
        loss(two_losses<models::SoftmaxLoss>(encoder, 3)) {
    encoder.transformer()->set_compute_dtype(DType::bf16);
  }
  const Storage& arena() const { return *nn::pack(*loss)->data().storage(); }
  std::size_t sidecars() const { return memory_stats(device).sidecars; }
  StepGraphs::Work work() {
    return [this](const models::PackedBatch& batch) {
      casts.of = &arena();
      if (watches) kernel_observer = &casts;
      const Variable value = (*loss)(batch);
      value.backward();
      kernel_observer = nullptr;
      return value.tensor();
    };
  }

  Device device;
  models::SentenceEncoder encoder;
  std::shared_ptr<models::MultiLoss> loss;
  Casts casts;
  bool watches = true;
};

/// Steps of both heads. Some parameters are written between steps, one gradient is NaN.
std::vector<float> train_steps(Device device, bool mirrored, StepGraphMode mode, bool adamw) {
  if (!mirrored) set_memory_limit(device, kRoomForAll);  // nothing is cached
  std::vector<float> seen;
  {
    Model model(device);
    const std::unique_ptr<Optimizer> optimizer =
        adamw ? std::unique_ptr<Optimizer>(std::make_unique<AdamW>(
                    *model.loss, AdamWOptions{.lr = 1e-2, .max_grad_norm = 1}))
              : std::make_unique<Sgd>(*model.loss, SgdOptions{.lr = 1e-1, .momentum = 0.9});
    StepGraphs graphs(*model.loss, *optimizer, device, {.mode = mode, .dtype = DType::bf16});
    for (std::int32_t step = 0; step < 14; ++step) {
      const auto work = model.work();
      const Tensor loss = graphs.run(batch_of(step, step % 3 == 2), [&](const auto& batch) {
        Tensor value = work(batch);
        const nn::Parameter bias = model.loss->parameters().front();
        if (step == 0 && !is_capturing()) bias.grad().fill_(NAN);
        return value;
      });
      seen.push_back(loss.item<float>());
      if (step == 0)
        CHECK_THROWS_AS(optimizer->finish_step(), Error);
      else
        optimizer->finish_step();
      optimizer->zero_grad();
      CHECK((model.sidecars() == model.arena().nbytes() / 2) == mirrored);
      if (step != 9) continue;
      for (const nn::Parameter& parameter : model.loss->parameters())
        if (parameter.shape().dim() == 2)
          parameter.mutable_tensor().copy_(ones(parameter.shape(), DType::f32, device));
    }
    CHECK((graphs.replayed() > 6) == (mode == StepGraphMode::automatic));
    for (const float value : parameter_values(*model.loss)) seen.push_back(value);
  }
  CHECK(memory_stats(device).sidecars == 0);
  set_memory_limit(device, 0);
  return seen;
}

}  // namespace

TEST_CASE(
    "rounded parameters that an optimizer writes give the bits of those that products round") {
  const GraphDevice graphs;
  for (const bool adamw : {true, false}) {
    const auto expected = train_steps(graphs.device, false, StepGraphMode::off, adamw);
    CHECK(std::isfinite(expected.back()));
    CHECK(train_steps(graphs.device, true, StepGraphMode::off, adamw) == expected);
    CHECK(train_steps(graphs.device, true, StepGraphMode::automatic, adamw) == expected);
  }
}

TEST_CASE("behind the first step in bf16 no step casts a parameter, eager or captured") {
  const GraphDevice graphs;
  for (const StepGraphMode mode : {StepGraphMode::off, StepGraphMode::automatic}) {
    Model model(graphs.device);
    AdamW optimizer(*model.loss, {.lr = 1e-2, .max_grad_norm = 1});
    StepGraphs steps(*model.loss, optimizer, graphs.device, {.mode = mode, .dtype = DType::bf16});
    std::vector<bool> cast;
    for (std::int32_t step = 0; step < 5; ++step) {
      model.casts.count = 0;
      steps.run(batch_of(step, 0), model.work());
      optimizer.finish_step();
      optimizer.zero_grad();
      cast.push_back(model.casts.count > 0);
    }
    CHECK(cast == std::vector<bool>{true, false, false, false, false});
    CHECK(steps.captured() == (mode == StepGraphMode::automatic ? 1 : 0));
  }
}

TEST_CASE("graphs made before a product wanted rounded parameters are made anew") {
  const GraphDevice graphs;
  Model model(graphs.device);
  model.watches = false;
  model.encoder.transformer()->set_compute_dtype(DType::f32);
  AdamW optimizer(*model.loss, {.lr = 1e-2});
  StepGraphs steps(*model.loss, optimizer, graphs.device, {.dtype = DType::f32});
  const std::vector<std::string> texts{words::text(1)};
  const auto step = [&](std::int32_t salt) {
    steps.run(batch_of(salt, 0), model.work());
    optimizer.finish_step();
    optimizer.zero_grad();
  };
  const auto encoded = [&] {
    model.encoder.transformer()->set_compute_dtype(DType::bf16);
    const std::vector<float> values = model.encoder.encode(texts).to_vector();
    model.encoder.transformer()->set_compute_dtype(DType::f32);
    return values;
  };
  for (std::int32_t i = 0; i < 3; ++i) step(i);
  CHECK(steps.captured() == 1);
  CHECK(model.sidecars() == 0);
  static_cast<void>(encoded());
  step(3);
  CHECK(steps.captured() == 2);
  CHECK(model.sidecars() == model.arena().nbytes() / 2);
  step(4);
  CHECK(steps.captured() == 2);
  const std::vector<float> from_mirror = encoded();
  nn::pack(*model.loss)->data().storage()->bump_version();
  CHECK(encoded() == from_mirror);
}
