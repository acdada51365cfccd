// The memory of each strategy, and its behaviour if a rank has less.
#include <doctest/doctest.h>

#include <cmath>

#include "../../files.h"
#include "ringlet/ringlet.h"
#include "ringlet/train/parallel/memory_need.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr int kRanks = 4;

TrainingResult train(const std::filesystem::path& folder, Strategy strategy,
                     const comm::Group& group) {
  const auto encoder = models::SentenceEncoder::from_pretrained(folder);
  models::CosineSimilarityLoss loss(encoder);
  const TrainingArguments arguments{
      .max_steps = 2, .per_device_train_batch_size = 2, .strategy = strategy};
  return Trainer(loss, {tiny::datasets()[2]}, encoder.tokenizer(), arguments, group).train();
}

/// On one rank, with a limit of 7 bytes per parameter.
void train_within_the_limit(const std::filesystem::path& folder, const comm::Group& group) {
  std::size_t parameters = 0;
  const auto needed = [&](Strategy strategy, int moments) {
    const auto encoder = models::SentenceEncoder::from_pretrained(folder);
    models::CosineSimilarityLoss loss(encoder);
    parameters = static_cast<std::size_t>(loss.num_parameters());
    return memory_need(strategy, loss, kRanks, moments).total();
  };
  const std::size_t ddp = needed(Strategy::ddp, 2);
  const std::size_t limit = 7 * parameters;
  set_memory_limit({}, limit);
  RINGLET_CHECK(needed(Strategy::fsdp, 2) < limit, "FSDP itself needs more");

  RINGLET_CHECK(std::isfinite(train(folder, Strategy::fsdp, group).loss), "a loss that is none");
  RINGLET_CHECK(memory_stats({}).peak <= limit, "peak ", memory_stats({}).peak);

  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero2}) {
    const std::string said = message_of<InputError>([&] { train(folder, strategy, group); });
    const std::string expected = str("[", kStrategies(strategy), "] ", parameters,
                                     " parameters need ", needed(strategy, 2), " bytes on each");
    RINGLET_CHECK(said.starts_with(expected), "expected ", expected, ", found ", said);
  }
  const std::string alone = message_of<InputError>([&] { train(folder, Strategy::none, {}); });
  RINGLET_CHECK(alone.starts_with(str("[none] ", parameters, " parameters need ", ddp, " ")),
                alone);

  // The wrapper does not know the optimizer, so it rejects only certain excess.
  const auto encoder = models::SentenceEncoder::from_pretrained(folder);
  models::CosineSimilarityLoss loss(encoder);
  const std::string certain = message_of<InputError>([&] { DistributedDataParallel(loss, group); });
  RINGLET_CHECK(
      certain.find(str("need ", ddp / 2, " bytes on each rank (parameters ", ddp / 4,
                       ", gradients ", ddp / 4, ", optimizer state 0")) != std::string::npos,
      certain);
  RINGLET_CHECK(certain.ends_with(str("the memory limit of cpu:0 is ", limit)), certain);
}

}  // namespace

TEST_CASE(
    "a model too large for one rank trains on four; other strategies say how much memory they "
    "need" *
    doctest::test_suite("host")) {
  const TemporaryFolder folder;
  models::SentenceEncoder(tiny::deep_config(), words::tokenizer()).save(folder / "model");
  CHECK_NOTHROW(comm::launch(
      [&](const comm::Group& group) { train_within_the_limit(folder / "model", group); }, kRanks,
      {.ranks = comm::Ranks::processes}));
}

TEST_CASE("memory of a strategy: 16, 16, 8 + 8 / n, 4 + 12 / n and 16 / n bytes x parameters") {
  const models::SentenceEncoder encoder(tiny::deep_config(), words::tokenizer());
  models::CosineSimilarityLoss loss(encoder);
  const auto all = static_cast<double>(nn::plan(loss)->numel());
  const auto bytes = [&](Strategy strategy, int n) {
    const MemoryNeed need = memory_need(strategy, loss, n, 2);
    return static_cast<double>(need.total() - need.whole) / all;
  };
  for (const int n : {1, 2, 4}) {
    CAPTURE(n);
    // A shard may exceed 1 / n by a norm block per unit.
    const auto near = [](double times) { return doctest::Approx(times).epsilon(0.05); };
    CHECK(bytes(Strategy::none, n) == 16);
    CHECK(bytes(Strategy::dp, n) == 16);
    CHECK(bytes(Strategy::ddp, n) == 16);
    CHECK(bytes(Strategy::zero1, n) == near(8 + 8.0 / n));
    CHECK(bytes(Strategy::zero2, n) == near(4 + 12.0 / n));
    CHECK(bytes(Strategy::fsdp, n) == near(16.0 / n));
  }
}
