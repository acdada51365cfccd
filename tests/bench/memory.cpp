// The computed memory compared with real steps: on the CPU, and captured on an asynchronous device.
#include "ringlet/bench/memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "../delayed_device.h"
#include "../device.h"
#include "ringlet/bench/runner.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/train/optimizer/update_rules.h"
#include "ringlet/train/step/step_graphs.h"

using namespace ringlet;
using namespace ringlet::bench;

namespace {

models::EncoderConfig config_of(models::Architecture architecture) {
  models::EncoderConfig config;
  config.architecture = architecture;
  config.vocab_size = 500;
  config.hidden_size = 64;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.intermediate_size = 256;
  config.max_position_embeddings = 100;
  config.type_vocab_size = architecture == models::Architecture::bert ? 2 : 0;
  return config;
}

models::PackedBatch batch_of(std::int64_t pairs, std::int64_t length) {
  models::BatchBuilder builder(2);
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(length), 7);
  const std::span<const std::int32_t> texts[] = {ids, ids};
  for (std::int64_t row = 0; row < pairs; ++row) {
    builder.add_row(texts, row);
    builder.add_label(row % 3);
  }
  return builder.build();
}

models::SentenceEncoder encoder_of(const models::EncoderConfig& config, DType dtype) {
  const std::vector<std::string> pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  models::SentenceEncoder encoder(config, models::Tokenizer::from_pieces(pieces));
  encoder.transformer()->set_compute_dtype(dtype);
  return encoder;
}

}  // namespace

TEST_CASE_FIXTURE(OnCpu, "a step takes what it takes on paper, and little beside") {
  for (const auto architecture : {models::Architecture::bert, models::Architecture::mpnet})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::int64_t length : {8, 64}) {
        CAPTURE(dtype);
        CAPTURE(length);
        const models::EncoderConfig config = config_of(architecture);
        const std::size_t before = memory_stats(Device{}).allocated;
        const models::SentenceEncoder encoder = encoder_of(config, dtype);
        models::SoftmaxLoss loss(encoder, 3);
        train::AdamW optimizer(loss, {.max_grad_norm = 1});
        const models::PackedBatch batch = batch_of(16, length);
        for (int step = 0; step < 2; ++step) {
          reset_peak_memory(Device{});
          loss(batch).backward();
          optimizer.step();
          optimizer.zero_grad();
        }
        const auto taken = static_cast<double>(memory_stats(Device{}).peak - before);
        const StepMemory paper =
            step_memory(*encoder.transformer(), batch.tokens(), dtype, DeviceType::cpu);
        // Unit ends in four arenas, ids, and the loss's values per pair.
        const auto units = static_cast<double>(config.num_hidden_layers + 3);
        const auto tokens = static_cast<double>(batch.tokens());
        const double beside = 16 * kNormBlock * units + 32 * tokens + 32 * 4 * 64 * 16;
        CHECK(taken >= paper.total());
        CHECK(taken <= paper.total() + beside);
        CHECK(taken <= 1.2 * paper.total());
      }
}

TEST_CASE("the memory that graphs share has little that a step has not on paper") {
  if (has_backend(DeviceType::cuda)) return;  // steps of realistic size are measured there
  const DelayedDevice delayed;
  const Device device{DeviceType::cuda, 0};
  models::EncoderConfig config = config_of(models::Architecture::mpnet);
  config.hidden_size = 256;
  config.intermediate_size = 1024;
  const models::SentenceEncoder encoder = encoder_of(config, DType::f32);
  models::SoftmaxLoss loss(encoder, 3);
  loss.to(device);
  train::AdamW optimizer(loss, {.max_grad_norm = 1});
  train::StepGraphs graphs(loss, optimizer, device);
  std::int64_t tokens = 0;
  for (const std::int64_t pairs : {16, 16, 12, 12, 16}) {
    const models::PackedBatch batch = batch_of(pairs, 40);
    tokens = std::max(tokens, models::token_bucket(batch.tokens()));
    graphs.run(batch, [&](const models::PackedBatch& on_device) {
      const Variable value = loss(on_device);
      value.backward();
      return value.tensor();
    });
    optimizer.zero_grad();
    optimizer.finish_step();
  }
  REQUIRE(graphs.captured() == 2);
  REQUIRE(graphs.replayed() == 3);
  const MemoryStats memory = memory_stats(device);
  const StepMemory paper = step_memory(*encoder.transformer(), tokens, DType::f32, DeviceType::cpu);
  CHECK(held(memory) >= paper.total());
  CHECK(held(memory) <= 1.2 * paper.total());
}

TEST_CASE(
    "on paper a GPU has all parameters in bf16 beside f32, where that is what products take") {
  const auto encoder = models::Transformer::create(config_of(models::Architecture::mpnet));
  const auto paper = [&](DType dtype, DeviceType device) {
    return step_memory(*encoder, 100, dtype, device);
  };
  const StepMemory gpu = paper(DType::bf16, DeviceType::cuda);
  CHECK(gpu.sidecars == gpu.parameters / 2);
  CHECK(paper(DType::f32, DeviceType::cuda).sidecars == 0);
  CHECK(paper(DType::bf16, DeviceType::cpu).sidecars == 0);
}

TEST_CASE("a row of a mesh needs the memory of its parts, not of a model on each device") {
  models::EncoderConfig config = config_of(models::Architecture::mpnet);
  config.hidden_size = 1024;  // layers are most of it
  config.intermediate_size = 4096;
  const auto bytes = [&](const Plan& plan) { return state_bytes(plan, config); };
  const double one = bytes({.name = "none"});
  const auto ddp = train::Strategy::ddp;
  CHECK(bytes({.name = "ddp", .strategy = ddp, .devices = 4}) == 4 * one);
  CHECK(bytes({.name = "pipe", .strategy = ddp, .devices = 4, .stages = 4}) == one);
  CHECK(bytes({.name = "tensor", .strategy = ddp, .devices = 4, .slices = 4}) < 1.1 * one);
  // Each process makes the whole model first.
  CHECK(bytes({.name = "pipe", .strategy = ddp, .devices = 8, .stages = 8}) == 2 * one);
}
