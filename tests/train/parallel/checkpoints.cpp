// Saved under one strategy, resumed under another, on another number of devices.
#include <doctest/doctest.h>

#include <cmath>

#include "../../files.h"
#include "ringlet/core/file.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/evaluator.h"
#include "ringlet/train/parallel/fully_sharded.h"
#include "ringlet/train/trainer.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

struct Way {
  const char* name;
  Strategy strategy;
  int devices;
};

/// 12 rows in a global batch, however many devices there are.
TrainingArguments arguments(const Way& way, std::size_t accumulation = 1) {
  TrainingArguments arguments{
      .max_steps = 6,
      .batch_size = 12 / static_cast<std::size_t>(way.devices) / accumulation,
      .gradient_accumulation = accumulation,
      .lr = 1e-3,
      .strategy = way.strategy,
      .save_steps = 0};
  if (way.strategy == Strategy::dp)
    for (int i = 0; i < way.devices; ++i) arguments.devices.push_back({DeviceType::cpu, i});
  return arguments;
}

/// Runs a trainer on every rank of a strategy.
void run_trainers(const Way& way, const TrainingArguments& arguments,
                  const std::function<void(tiny::Model&, Trainer&, const comm::Group&)>& run) {
  const auto on_rank = [&](const comm::Group& group) {
    tiny::Model model;
    Trainer trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), arguments, group);
    run(model, trainer, group);
  };
  if (way.strategy == Strategy::none || way.strategy == Strategy::dp) return on_rank({});
  comm::launch(on_rank, way.devices, {.ranks = comm::Ranks::threads});
}

constexpr Way kAll[] = {{"ddp", Strategy::ddp, 2},
                        {"zero1", Strategy::zero1, 2},
                        {"zero2", Strategy::zero2, 2},
                        {"fsdp", Strategy::fsdp, 2},
                        {"dp", Strategy::dp, 2}};

}  // namespace

TEST_CASE(
    "at a fixed number of devices every strategy writes the same bytes, accumulating or not") {
  for (const std::size_t accumulation : {1, 2}) {
    std::string model, checkpoint, optimizer;
    for (const Way& way : kAll) {
      CAPTURE(way.name);
      CAPTURE(accumulation);
      const TemporaryFolder folder;
      TrainingArguments args = arguments(way, accumulation);
      args.output = folder / "out";
      args.save_steps = 6;
      run_trainers(way, args, [&](tiny::Model& model, Trainer& trainer, const comm::Group&) {
        trainer.train();
        model.encoder.save(folder / "model");
      });
      const std::string bytes = read_file(folder / "model/model.safetensors");
      const std::string state = read_file(folder / "out/checkpoint-6/model.safetensors");
      const std::string moments = read_file(folder / "out/checkpoint-6/optimizer.safetensors");
      if (model.empty()) {
        model = bytes;
        checkpoint = state;
        optimizer = moments;
      }
      CHECK((model == bytes));
      CHECK((checkpoint == state));
      CHECK((optimizer == moments));
    }
  }
}

TEST_CASE("saved under FSDP on 4, it goes on under anything with the batches that are next") {
  const TemporaryFolder folder;
  const Way fsdp{"fsdp", Strategy::fsdp, 4};
  TrainingArguments first = arguments(fsdp);
  first.output = folder / "out";
  first.save_steps = 3;
  std::vector<StepReport> undisturbed;
  run_trainers(fsdp, first, [&](tiny::Model&, Trainer& trainer, const comm::Group& group) {
    TrainerCallbacks callbacks;
    if (group.rank() == 0)
      callbacks.on_step = [&](const StepReport& at) { undisturbed.push_back(at); };
    trainer.set_callbacks(callbacks);
    trainer.train();
  });
  REQUIRE(undisturbed.size() == 6);

  for (const Way& way : {Way{"ddp", Strategy::ddp, 2}, Way{"dp", Strategy::dp, 3},
                         Way{"zero2", Strategy::zero2, 3}, Way{"none", Strategy::none, 1}}) {
    CAPTURE(way.name);
    TrainingArguments again = arguments(way);
    again.resume_from = folder / "out/checkpoint-3";
    std::vector<StepReport> steps;
    run_trainers(way, again, [&](tiny::Model&, Trainer& trainer, const comm::Group& group) {
      TrainerCallbacks callbacks;
      if (group.rank() == 0) callbacks.on_step = [&](const StepReport& at) { steps.push_back(at); };
      trainer.set_callbacks(callbacks);
      trainer.train();
    });
    REQUIRE(steps.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(steps[i].step == static_cast<std::int64_t>(i + 4));
      CHECK(steps[i].lr == undisturbed[i + 3].lr);
      CHECK(steps[i].result.dataset == undisturbed[i + 3].result.dataset);
      CHECK(steps[i].result.rows == undisturbed[i + 3].result.rows);
      CHECK(steps[i].result.tokens == undisturbed[i + 3].result.tokens);
    }
    // Behind the resume a row has the same loss in any batch, to the bit; the losses of 12 rows,
    // none below 0, are added in another order and divided by their number: 12 roundings in either
    // run. What follows starts from parameters that differ by whole updates where a gradient is
    // smaller than its rounding errors (see rounding.cpp): of that no bound is known.
    constexpr double kRoundings = 2 * 12 * 0x1p-24;
    const double loss = undisturbed[3].result.loss, off = std::abs(steps[0].result.loss - loss);
    CHECK(off <= kRoundings * loss);
    MESSAGE(std::string(way.name), ": used ", 100 * off / (kRoundings * loss),
            " % of the allowed error");
  }
}

TEST_CASE("a checkpoint of FSDP on 4, read and written under anything, has the same bytes") {
  const TemporaryFolder folder;
  const Way fsdp{"fsdp", Strategy::fsdp, 4};
  TrainingArguments first = arguments(fsdp);
  first.output = folder / "out";
  first.save_steps = 3;
  run_trainers(fsdp, first,
               [](tiny::Model&, Trainer& trainer, const comm::Group&) { trainer.train(); });
  const auto bytes = [](const std::filesystem::path& checkpoint) {
    return std::pair(read_file(checkpoint / "model.safetensors"),
                     read_file(checkpoint / "optimizer.safetensors"));
  };
  for (const Way& way : {Way{"ddp", Strategy::ddp, 2}, Way{"dp", Strategy::dp, 3},
                         Way{"zero2", Strategy::zero2, 3}, Way{"none", Strategy::none, 1}}) {
    CAPTURE(way.name);
    run_trainers(way, arguments(way), [&](tiny::Model& model, Trainer&, const comm::Group&) {
      AdamW optimizer(*model.loss, tiny::adamw());
      const auto state = load_checkpoint(folder / "out/checkpoint-3", *model.loss, optimizer);
      save_checkpoint(folder / way.name, *model.loss, optimizer, state);
    });
    CHECK((bytes(folder / way.name) == bytes(folder / "out/checkpoint-3")));
  }
}

TEST_CASE("ranks that would go on from different checkpoints are refused") {
  const TemporaryFolder folder;
  const Way ddp{"ddp", Strategy::ddp, 2};
  TrainingArguments first = arguments(ddp);
  first.output = folder / "out";
  first.save_steps = 3;
  run_trainers(ddp, first,
               [](tiny::Model&, Trainer& trainer, const comm::Group&) { trainer.train(); });
  const auto resume = [&](const comm::Group& group) {
    tiny::Model model;
    TrainingArguments again = arguments(ddp);
    again.resume_from = folder / (group.rank() == 0 ? "out/checkpoint-6" : "out/checkpoint-3");
    Trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), again, group).train();
  };
  std::string message;
  try {
    comm::launch(resume, 2);
  } catch (const InputError& error) {
    message = error.what();
  }
  CHECK(message.find("rank 0 would go on from checkpoint-6, rank 1 from checkpoint-3") !=
        std::string::npos);
}

TEST_CASE("evaluated together in the middle of training, the figures are those of one device") {
  const TextDataset scored = *tiny::datasets()[2];
  const auto labelled = tiny::datasets()[0];
  std::vector<double> alone;
  for (const Way& way : {Way{"none", Strategy::none, 1}, Way{"ddp", Strategy::ddp, 2},
                         Way{"zero1", Strategy::zero1, 3}, Way{"fsdp", Strategy::fsdp, 3},
                         Way{"dp", Strategy::dp, 2}}) {
    CAPTURE(way.name);
    TrainingArguments args = arguments(way);
    args.lr = 0;  // the same model at every step, whatever the number of devices
    args.max_steps = 2;
    args.eval_steps = 1;
    args.eval_each_epoch = false;
    const auto run = [&](tiny::Model& model, Trainer& trainer, const comm::Group& group) {
      auto* classifier = dynamic_cast<models::SoftmaxLoss*>(model.loss->losses()[0].get());
      const EmbeddingSimilarityEvaluator similar(scored, {.name = "sts"});
      const LabelAccuracyEvaluator accurate(labelled, {.name = "nli", .batch_size = 5});
      std::vector<double> found;
      const auto note = [&](const Metrics& metrics) {
        for (const auto& [name, value] : metrics) found.push_back(value);
        return metrics;
      };
      trainer.add_evaluator(
          [&](const EvaluationPoint& at) { return note(similar.evaluate(model.encoder, at)); });
      trainer.add_evaluator([&](const EvaluationPoint& at) {
        return note(accurate.evaluate(*classifier, model.encoder.tokenizer(), at));
      });
      trainer.train();
      if (way.strategy == Strategy::none) alone = found;
      CHECK(found.size() == 8);
      CHECK(found == alone);
      // Each rank may encode what it likes, one of them nothing.
      const std::vector<std::string> texts(static_cast<std::size_t>(group.rank()), "a b");
      CHECK(model.encoder.encode(texts).size(0) == group.rank());
    };
    run_trainers(way, args, run);
  }
}

TEST_CASE("from a folder to shards and back to a folder, no rank holds the model whole") {
  const TemporaryFolder folder;
  models::EncoderConfig config = tiny::config();
  config.hidden_size = 96;
  config.intermediate_size = 384;
  config.num_hidden_layers = 12;
  models::SentenceEncoder(config, words::tokenizer()).save(folder / "model");
  constexpr int kRanks = 4;
  const auto before = memory_stats({}).allocated;
  std::size_t parameters = 0, unit = 0, peak = 0;
  comm::launch(
      [&](const comm::Group& group) {
        if (group.rank() == 0) reset_peak_memory({});
        group.barrier();
        const auto encoder = models::SentenceEncoder::from_pretrained(folder / "model");
        models::CosineSimilarityLoss loss(encoder);
        FullySharded fsdp(loss, group);
        encoder.save(folder / "again");
        group.barrier();
        if (group.rank() != 0) return;
        parameters = static_cast<std::size_t>(loss.num_parameters()) * sizeof(float);
        for (const nn::Unit& one : loss.arena()->units())
          unit = std::max(unit, static_cast<std::size_t>(one.end - one.begin) * sizeof(float));
        peak = memory_stats({}).peak - before;
      },
      kRanks, {.ranks = comm::Ranks::threads});
  // All ranks together: the shards of data and gradients once, a whole unit or two on each.
  CHECK(peak < 2 * parameters + kRanks * (2 * unit + (1 << 16)));
  CHECK(peak < kRanks * parameters);
  CHECK((read_file(folder / "model/model.safetensors") ==
         read_file(folder / "again/model.safetensors")));
}
