// Steps of a small loss under train::StepGraphs, on a device with graphs.
#pragma once

#include "../results.h"
#include "graph_device.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/train/optimizer/update_rules.h"
#include "ringlet/train/step/step_graphs.h"

namespace ringlet {

inline train::StepGraphs::Work work_of(models::Loss& loss) {
  return [&](const models::PackedBatch& on_device) {
    const Variable value = loss(on_device);
    value.backward();
    return value.tensor();
  };
}

/// Pairs of `length` tokens each, labelled by row; another `salt` gives other pairs.
inline models::PackedBatch pairs_of(std::size_t rows, std::int32_t salt, std::size_t length = 5) {
  models::BatchBuilder builder(2);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<std::int32_t> first(length, words::kA), second(length, words::kB);
    first[row % length] = words::kA + (salt + static_cast<std::int32_t>(row)) % 4;
    const std::span<const std::int32_t> texts[] = {first, second};
    builder.add_row(texts, static_cast<std::int64_t>(row));
    builder.add_label(static_cast<std::int64_t>(row % 3));
  }
  return builder.build();
}

/// An encoder with a classifier, and its single steps.
struct GraphSteps {
  /// At a rate of 0 parameters do not change, so a batch has the same loss in every step.
  static train::AdamWOptions still() { return {.lr = 0, .max_grad_norm = 1}; }

  explicit GraphSteps(Device device) : GraphSteps(encoder_on(device), device, still()) {}
  GraphSteps(models::SentenceEncoder encoder, Device device, train::AdamWOptions adamw,
             train::StepGraphMode mode = train::StepGraphMode::automatic)
      : seed({6, 0, 0}),
        loss(std::move(encoder), 3),
        optimizer(loss, std::move(adamw)),
        graphs(loss, optimizer, device, {.mode = mode, .on_note = [this](const std::string& line) {
                                           notes.push_back(line);
                                         }}) {}

  /// Forward to update; gradients stay. Returns the loss.
  double run(const models::PackedBatch& batch) { return run(batch, work_of(loss)); }
  double run(const models::PackedBatch& batch, const train::StepGraphs::Work& work) {
    const double value = graphs.run(batch, work).item<double>();
    optimizer.finish_step();
    return value;
  }
  double step(const models::PackedBatch& batch) {
    const double value = run(batch);
    optimizer.zero_grad();
    return value;
  }

  GeneratorGuard seed;
  std::vector<std::string> notes;
  models::SoftmaxLoss loss;
  train::AdamW optimizer;
  train::StepGraphs graphs;
};

}  // namespace ringlet
