// Saved under one strategy, resumed under another, on a different number of devices.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <utility>

#include "../../device.h"
#include "../../files.h"
#include "../../oracle.h"
#include "ringlet/core/io/file.h"
#include "ringlet/ringlet.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

struct Way {
  Strategy strategy;
  int devices;
  std::string name() const { return std::string(kStrategies(strategy)); }
};

/// 12 rows per global batch, for any number of devices.
TrainingArguments arguments(const Way& way, std::size_t accumulation = 1) {
  TrainingArguments arguments{
      .max_steps = 6,
      .per_device_train_batch_size = 12 / static_cast<std::size_t>(way.devices) / accumulation,
      .gradient_accumulation_steps = accumulation,
      .learning_rate = 1e-3,
      .strategy = way.strategy};
  if (way.strategy == Strategy::dp) arguments.devices = tiny::devices(way.devices);
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

}  // namespace

TEST_CASE(
    "at a fixed number of devices every strategy writes the same bytes, accumulating or not") {
  struct How {
    std::size_t accumulation;
    OptimizerKind optimizer = OptimizerKind::adamw;
    double momentum = 0;
  };
  for (const How& how : {How{1}, How{2}, How{1, OptimizerKind::sgd, 0.9}}) {
    std::string model, checkpoint, optimizer;
    for (const Strategy strategy : tiny::strategies()) {
      const Way way{strategy, 2};
      CAPTURE(way.name());
      CAPTURE(how.accumulation);
      CAPTURE(kOptimizers(how.optimizer));
      const TemporaryFolder folder;
      TrainingArguments args = arguments(way, how.accumulation);
      args.optim = how.optimizer;
      args.momentum = how.momentum;
      args.output_dir = folder / "out";
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

TEST_CASE(
    "saved under FSDP on 4: the same bytes under anything, which goes on with the next batches") {
  const TemporaryFolder folder;
  const Way fsdp{Strategy::fsdp, 4};
  TrainingArguments first = arguments(fsdp);
  first.output_dir = folder / "out";
  first.save_steps = 3;
  std::vector<StepReport> undisturbed;
  run_trainers(fsdp, first, [&](tiny::Model&, Trainer& trainer, const comm::Group& group) {
    TrainerCallback callbacks;
    if (group.rank() == 0)
      callbacks.on_step_end = [&](const StepReport& at) { undisturbed.push_back(at); };
    trainer.add_callback(callbacks);
    trainer.train();
  });
  REQUIRE(undisturbed.size() == 6);
  const auto bytes = [](const std::filesystem::path& checkpoint) {
    return std::pair(read_file(checkpoint / "model.safetensors"),
                     read_file(checkpoint / "optimizer.safetensors"));
  };

  for (const Way& way : {Way{Strategy::ddp, 2}, Way{Strategy::dp, 3}, Way{Strategy::zero2, 3},
                         Way{Strategy::none, 1}}) {
    CAPTURE(way.name());
    run_trainers(way, arguments(way), [&](tiny::Model& model, Trainer&, const comm::Group&) {
      AdamW optimizer(*model.loss, tiny::adamw());
      const auto state = load_checkpoint(folder / "out/checkpoint-3", *model.loss, optimizer);
      save_checkpoint(folder / way.name(), *model.loss, optimizer, state);
    });
    CHECK((bytes(folder / way.name()) == bytes(folder / "out/checkpoint-3")));
    TrainingArguments again = arguments(way);
    again.resume_from_checkpoint = folder / "out/checkpoint-3";
    std::vector<StepReport> steps;
    run_trainers(way, again, [&](tiny::Model&, Trainer& trainer, const comm::Group& group) {
      TrainerCallback callbacks;
      if (group.rank() == 0)
        callbacks.on_step_end = [&](const StepReport& at) { steps.push_back(at); };
      trainer.add_callback(callbacks);
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
    // After the resume a row's loss has the same bits in any batch. The losses of 12 rows, all at
    // least 0, are added in another order and divided by 12: 12 roundings per run. Later steps
    // start from parameters that differ by whole updates if a gradient is smaller than its rounding
    // errors (see rounding.cpp). For those no bound is known.
    constexpr double kRoundings = 2 * 12 * 0x1p-24;
    const double loss = undisturbed[3].result.loss, off = std::abs(steps[0].result.loss - loss);
    CHECK(off <= kRoundings * loss);
    MESSAGE(way.name(), ": used ", 100 * off / (kRoundings * loss), " % of the allowed error");
  }
}

namespace {

/// On each of three ranks: a step, a checkpoint, and one for which the last rank's disk is full.
void save_twice(const Way& way, const std::filesystem::path& folder, const comm::Group& group) {
  tiny::Model model;
  const AttachedStrategy strategy(way.strategy, *model.loss, group, {});
  tiny::Training training(model, group);
  AdamW& optimizer = training.optimizer;
  training.forward().backward();
  optimizer.step();
  const auto before = group.stats().bytes_sent;
  save_checkpoint(folder / "good", *model.loss, optimizer, {});
  const auto sent = group.stats().bytes_sent - before;
  // A few lines of text; a tenth of one parameter would be more.
  RINGLET_CHECK(sent < 4096, way.name(), " sent ", sent, " bytes");

  std::optional<FullDisk> full;
  if (group.rank() == 2) full.emplace(1000);
  const std::string said =
      message_of<InputError>([&] { save_checkpoint(folder / "bad", *model.loss, optimizer, {}); });
  RINGLET_CHECK(said.find("rank 2: ") != said.npos &&
                    said.find("model.safetensors: cannot write: File too large") != said.npos,
                said);
  group.barrier();  // the ranks are intact and continue together
}

}  // namespace

TEST_CASE("ranks write what they hold at the same time; what one cannot write, none has" *
          doctest::test_suite("host")) {
  for (const Strategy strategy : kStrategiesOfRanks) {
    const Way way{strategy, 3};
    const TemporaryFolder folder;
    CHECK_NOTHROW(
        comm::launch([&](const comm::Group& group) { save_twice(way, folder.path(), group); },
                     way.devices, {.ranks = comm::Ranks::processes}));
    CHECK(folder.entries() == 1);
  }
}

TEST_CASE("ranks that would go on from different checkpoints are refused") {
  const TemporaryFolder folder;
  const Way ddp{Strategy::ddp, 2};
  TrainingArguments first = arguments(ddp);
  first.output_dir = folder / "out";
  first.save_steps = 3;
  run_trainers(ddp, first,
               [](tiny::Model&, Trainer& trainer, const comm::Group&) { trainer.train(); });
  const auto resume = [&](const comm::Group& group) {
    tiny::Model model;
    TrainingArguments again = arguments(ddp);
    again.resume_from_checkpoint =
        folder / (group.rank() == 0 ? "out/checkpoint-6" : "out/checkpoint-3");
    Trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), again, group).train();
  };
  const std::string said = message_of<InputError>([&] { comm::launch(resume, 2); });
  CHECK(said.find("rank 0 would go on from checkpoint-6, rank 1 from checkpoint-3") !=
        std::string::npos);
}

namespace {

/// Compares the results of devices that share the rows with those of one device with all rows.
template <class Found>
void check_same(const Found& found, const Found& alone) {
  if (has_shape_free_products) CHECK(found == alone);
}

struct Evaluators {
  EmbeddingSimilarityEvaluator similar{*tiny::datasets()[2], {.name = "sts"}};

  /// Pearson and Spearman correlation, accuracy and a loss.
  std::vector<double> operator()(const tiny::Model& model, const EvaluationPoint& at) const {
    const ExampleEvaluator scored_loss(
        *model.loss, tiny::datasets()[2]->size(),
        collate_texts(tiny::datasets()[2], model.encoder.tokenizer(), {}),
        [&](models::PackedBatch batch) {
          batch.dataset = 2;
          return Metrics{{"eval_loss", (*model.loss)(batch).tensor().item<double>()}};
        },
        /*batch_size=*/5);
    const LabelAccuracyEvaluator accurate(
        tiny::datasets()[0],
        std::dynamic_pointer_cast<models::SoftmaxLoss>(model.loss->losses()[0]),
        {.name = "nli", .batch_size = 5});
    std::vector<double> found;
    for (const Metrics& metrics : {similar.evaluate(model.encoder, at),
                                   accurate.evaluate(model.encoder, at), scored_loss(at)})
      for (const auto& metric : metrics) found.push_back(metric.second);
    return found;
  }
};

/// Rank 0's results after each of three steps; each rank compares with one device.
std::vector<std::vector<double>> evaluate_while_training(const Way& way) {
  TrainingArguments args = arguments(way);
  args.max_steps = 3;
  args.eval_strategy = EvalStrategy::steps;
  args.eval_steps = 1;
  std::vector<std::vector<double>> figures;
  run_trainers(way, args, [&](tiny::Model& model, Trainer& trainer, const comm::Group& group) {
    const tiny::Model alone;
    const Evaluators evaluators;
    trainer.add_evaluator([&](const EvaluationPoint& at) {
      const std::vector<double> found = evaluators(model, at);
      tiny::copy_weights(*model.loss, *alone.loss);
      check_same(found, evaluators(alone, {}));
      if (group.rank() == 0) figures.push_back(found);
      return Metrics();
    });
    trainer.train();
    // Each rank may encode different texts; rank 0 has none.
    const std::vector<std::string> texts(static_cast<std::size_t>(group.rank()), "a b");
    CHECK(model.encoder.encode(texts).size(0) == group.rank());
  });
  return figures;
}

}  // namespace

TEST_CASE("evaluated while it learns, a model has the figures of one device, at every n") {
  for (const int n : {1, 2, 3}) {
    std::vector<std::vector<double>> first;
    std::vector<Strategy> strategies = tiny::strategies();
    if (n == 1) strategies.push_back(Strategy::none);
    for (const Strategy strategy : strategies) {
      CAPTURE(n);
      CAPTURE(kStrategies(strategy));
      const auto figures = evaluate_while_training({strategy, n});
      REQUIRE(figures.size() == 3);
      CHECK(figures[0] != figures[1]);
      CHECK(figures[1] != figures[2]);
      if (first.empty()) first = figures;
      // DP deals the evaluated rows by their tokens, the others by rank.
      if (strategy == Strategy::dp)
        check_same(figures, first);
      else
        CHECK(figures == first);
    }
  }
}

TEST_CASE("under DP every device encodes, scores and evaluates losses, with the bits of one") {
  tiny::Model model;
  const tiny::Model alone;
  const Device second = tiny::devices(2)[1];
  const SentenceDataParallel parallel(*model.loss, tiny::devices(2));
  const Evaluators evaluators;
  const auto computes = [&](const auto& body) {
    const auto before = memory_stats(second).allocations;
    body();
    return memory_stats(second).allocations > before;
  };
  tiny::Training training(model, tiny::loader_options(0, 1));
  const models::PackedBatch batch = training.next();  // the loss divides it
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const tiny::Model* each : {&std::as_const(model), &alone})
      each->encoder.transformer()->set_compute_dtype(dtype);
    (*model.loss)(batch).backward();
    training.update();
    tiny::copy_weights(*model.loss, *alone.loss);
    CHECK(computes([&] { check_same(evaluators(model, {}), evaluators(alone, {})); }));
    const std::vector<std::string> texts{"a b", "c", "d a b c", "b"};
    Tensor embeddings;
    CHECK(computes([&] { embeddings = model.encoder.encode(texts); }));
    check_same(embeddings.to_vector(), alone.encoder.encode(texts).to_vector());
    if (dtype == DType::f32) check_close(embeddings, alone.encoder.encode(texts), 1e-5);
    CHECK(model.encoder.encode(std::vector<std::string>()).size(0) == 0);
    const autograd::NoGrad no_grad;
    double loss = 0;
    CHECK(computes([&] { loss = (*model.loss)(batch).item<double>(); }));
    check_same(loss, (*alone.loss)(batch).item<double>());
  }
}

namespace {

/// Rewrites a file's tensors in another dtype.
void keep_as(DType dtype, const std::filesystem::path& path) {
  NamedTensors tensors;
  {
    const SafeTensors file = SafeTensors::open(path);
    for (const std::string& name : file.names())
      tensors.emplace_back(name, file.load(name).clone().to(dtype));
  }
  save_safetensors(path, tensors);
}

}  // namespace

TEST_CASE("from a folder to shards and back to a folder, no rank holds the model whole") {
  const TemporaryFolder folder;
  models::EncoderConfig config = tiny::config();
  config.hidden_size = 96;
  config.intermediate_size = 384;
  config.num_hidden_layers = 12;
  models::SentenceEncoder(config, words::tokenizer()).save(folder / "model");
  constexpr int kRanks = 4;
  const std::string whole = read_file(folder / "model/model.safetensors");
  const DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  for (const DType dtype : dtypes) {
    CAPTURE(name(dtype));
    keep_as(dtype, folder / "model/model.safetensors");
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
    // All ranks together: the shards of data and gradients once. On each rank two units: the one
    // being distributed, and the one before, which the group's thread may release later. And on
    // rank 0, which reads for all, the unit as f32, unless it is mapped from the file.
    const std::size_t read = dtype == DType::f32 ? 0 : unit;
    CHECK(peak < 2 * parameters + kRanks * (2 * unit + (1 << 16)) + read);
    CHECK(peak < kRanks * parameters);
    // Rounded weights do not change when rounded again.
    const SafeTensors first = SafeTensors::open(folder / "model");
    const SafeTensors again = SafeTensors::open(folder / "again");
    for (const std::string& tensor : first.names())
      CHECK(first.load(tensor).to(DType::f32).to_vector() == again.load(tensor).to_vector());
    if (dtype == DType::f32) CHECK((whole == read_file(folder / "again/model.safetensors")));
  }
}
