// Pipelines over a sentence encoder, by a Trainer: the bytes of gradient accumulation.
#include "ringlet/train/parallel/model/sentence_pipeline.h"

#include <doctest/doctest.h>

#include <cmath>

#include "../../../device.h"
#include "../../../files.h"
#include "../tiny.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/modules/after_pooling.h"
#include "ringlet/ringlet.h"
#include "ringlet/tests/extended.h"
#include "ringlet/train/parallel/model/same_rows.h"
#include "ringlet/train/report/timeline.h"
#include "ringlet/train/step/sentence_task.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// A tiny model of six layers, dropout included.
models::SentenceEncoder six_layers(models::Architecture architecture, std::uint64_t seed = 5) {
  const GeneratorGuard seeded(RandomGenerator{seed, 0, 0});
  models::EncoderConfig config = tiny::config();
  config.architecture = architecture;
  config.num_hidden_layers = 6;
  return {config, words::tokenizer()};
}

struct Way {
  MeshShape mesh;
  Strategy strategy = Strategy::none;
  PipelineOptions pipeline = {};
  std::size_t micro_batches = 4;
  std::size_t rows = 1;  // of a micro-batch; a GPU's batches of few rows end with much padding
  bool recompute = false;
  DType dtype = DType::f32;
  models::Architecture architecture = models::Architecture::mpnet;
  std::int64_t steps = 10;
  double clip = 1;
  int slices = 1;  // that one rank computes as so many ranks along `tensor` would
  bool sequence = false;
};

TrainingArguments arguments(const Way& way) {
  return {.max_steps = way.steps,
          .per_device_train_batch_size = way.rows,
          .gradient_accumulation_steps = way.micro_batches,
          .learning_rate = 1e-3,
          .max_grad_norm = way.clip,
          .dtype = way.dtype,
          .gradient_checkpointing = way.recompute,
          .strategy = way.strategy,
          .mesh = way.mesh,
          .tensor_sequence = way.sequence && way.mesh.tensor > 1,
          .pipeline = way.pipeline,
          .save_strategy = SaveStrategy::no};
}

using Run = std::function<void(tiny::Model&, Trainer&, const comm::Group&)>;

/// Ranks begin with different weights, and train those of rank 0.
void run_trainers(const Way& way, const TrainingArguments& arguments, const Run& run) {
  comm::launch(
      [&](const comm::Group& group) {
        tiny::Model model;
        model.train(six_layers(way.architecture, group.rank() == 0 ? 5 : 99));
        models::Transformer& transformer = *model.encoder.transformer();
        TensorParallel(transformer, {}, encoder_tensor_plan(transformer.config()),
                       {.slices = way.slices, .sequence = way.sequence});
        Trainer trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), arguments, group);
        run(model, trainer, group);
      },
      std::max(1, way.mesh.data) * way.mesh.pipe * way.mesh.tensor,
      {.ranks = comm::Ranks::threads, .group = {.timeout = std::chrono::seconds(60)}});
}

/// The model's file after training, which every rank agrees on.
std::string trained(const Way& way) {
  const TemporaryFolder folder;
  run_trainers(way, arguments(way), [&](tiny::Model& model, Trainer& trainer, const comm::Group&) {
    trainer.train();
    model.encoder.save(folder / "model");
  });
  return read_file(folder / "model/model.safetensors");
}

}  // namespace

TEST_CASE("a pipeline of an encoder ends with the bytes of gradient accumulation") {
  for (const std::size_t micro_batches : grid<std::size_t>({4}, {1, 2, 8})) {
    const std::string expected = trained({.mesh = {}, .micro_batches = micro_batches});
    for (const int pipe : grid({2, 3}, {4}))
      for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b,
                                      PipelineKind::interleaved, PipelineKind::zero_bubble}) {
        const bool interleaved = kind == PipelineKind::interleaved;
        if (interleaved && (pipe == 4 || micro_batches % static_cast<std::size_t>(pipe) != 0))
          continue;  // of six layers
        CAPTURE(pipe);
        CAPTURE(micro_batches);
        CAPTURE(kPipelines(kind));
        CHECK((trained({.mesh = {1, pipe},
                        .strategy = Strategy::ddp,
                        .pipeline = {.schedule = kind},
                        .micro_batches = micro_batches}) == expected));
      }
  }
}

TEST_CASE("cuts, recomputation, bf16 and other architectures change no byte") {
  using models::Architecture;
  for (const Architecture architecture :
       grid<Architecture>({Architecture::mpnet}, {Architecture::distilbert}))
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Way way{.mesh = {}, .dtype = dtype, .architecture = architecture};
      const std::string expected = trained(way);
      way.mesh = {1, 3};
      way.strategy = Strategy::ddp;
      for (const std::vector<int>& layers : grid<std::vector<int>>({{1, 1, 4}}, {{}, {3, 2, 1}}))
        for (const bool recompute : {false, true}) {
          CAPTURE(dtype);
          CAPTURE(layers.size());
          CAPTURE(recompute);
          way.pipeline.layers = layers;
          way.recompute = recompute;
          CHECK((trained(way) == expected));
        }
    }
}

TEST_CASE("stages are cut by numbers of layers, by parameters and by measured time") {
  CHECK(balanced_layers({1, 1, 1, 1, 1, 1}, 3) == std::vector{2, 2, 2});
  CHECK(balanced_layers({5, 1, 1, 1, 1, 1}, 2) == std::vector{1, 5});
  CHECK(balanced_layers({1, 1, 1, 9, 1, 1}, 3) == std::vector{3, 1, 2});
  CHECK(balanced_layers({4, 3}, 2) == std::vector{1, 1});
  CHECK(balanced_layers(std::vector<double>(12, 1), 5) == std::vector{2, 2, 2, 3, 3});
  CHECK(balanced_layers(std::vector<double>(24, 1), 7) == std::vector{3, 3, 3, 3, 4, 4, 4});
  const models::SentenceEncoder encoder = six_layers(models::Architecture::mpnet);
  models::SoftmaxLoss loss(encoder, 3);
  models::Transformer& transformer = *encoder.transformer();
  const std::vector<double> parameters =
      layer_costs(PipelineBalance::parameters, loss, transformer, {});
  CHECK(parameters[0] == parameters[1] + 64 * 48 + 16 * 48 + 2 * 48 + 32 * 6);  // embeddings, bias
  CHECK(parameters[5] == parameters[1] + 3 * 48 * 3 + 3);                       // the loss's head
  for (const double seconds : layer_costs(PipelineBalance::time, loss, transformer, {}))
    CHECK(seconds > 0);
  for (const nn::Parameter& one : loss.parameters()) CHECK_FALSE(one.grad().defined());

  const std::string expected = trained({.mesh = {}});
  for (const PipelineBalance balance : {PipelineBalance::parameters, PipelineBalance::time}) {
    const Way way{.mesh = {1, 3}, .strategy = Strategy::ddp, .pipeline = {.balance = balance}};
    CHECK((trained(way) == expected));
  }
  // Every rank has the cut of rank 0's times.
  const Way along_data{
      .mesh = {2, 2}, .strategy = Strategy::ddp, .pipeline = {.balance = PipelineBalance::time}};
  CHECK((trained(along_data) == trained({.mesh = {2}, .strategy = Strategy::ddp})));
  const Way sliced{.mesh = {1, 2, 2},
                   .strategy = Strategy::ddp,
                   .pipeline = {.balance = PipelineBalance::time},
                   .clip = 0};
  CHECK((trained(sliced) == trained({.mesh = {}, .clip = 0, .slices = 2})));
}

TEST_CASE("data x pipe: the bytes of the same strategy along data alone") {
  const std::string expected = trained({.mesh = {2, 1}, .strategy = Strategy::ddp});
  for (const Strategy strategy :
       grid<Strategy>({Strategy::ddp, Strategy::fsdp}, {Strategy::zero1, Strategy::zero2}))
    for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b,
                                    PipelineKind::interleaved, PipelineKind::zero_bubble}) {
      if (strategy == Strategy::fsdp && kind == PipelineKind::zero_bubble) continue;
      CAPTURE(kStrategies(strategy));
      CAPTURE(kPipelines(kind));
      CHECK((trained({.mesh = {2, 2}, .strategy = strategy, .pipeline = {.schedule = kind}}) ==
             expected));
    }
}

// The global norm is summed by slices: without clipping it decides nothing.
TEST_CASE(
    "data x pipe x tensor: the bytes of ranks along data that compute the slices themselves") {
  for (const int tensor : grid({2}, {3})) {
    const std::string expected =
        trained({.mesh = {2}, .strategy = Strategy::ddp, .clip = 0, .slices = tensor});
    CHECK((expected != trained({.mesh = {2}, .strategy = Strategy::ddp, .clip = 0})));
    for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::fsdp})
      for (const int pipe : {1, 2}) {
        CAPTURE(tensor);
        CAPTURE(pipe);
        CAPTURE(kStrategies(strategy));
        CHECK((trained({.mesh = {2, pipe, tensor}, .strategy = strategy, .clip = 0}) == expected));
      }
  }
}

TEST_CASE("data x pipe x tensor with sequence parallelism: the bytes of its reference") {
  Way way{.mesh = {2},
          .strategy = Strategy::ddp,
          .micro_batches = 2,
          .rows = 4,
          .clip = 0,
          .slices = 2};
  const std::string plain = trained(way);
  way.sequence = true;
  const std::string expected = trained(way);
  CHECK((expected != plain));
  way.slices = 1;
  way.mesh = {2, 1, 2};
  CHECK((trained(way) == expected));
  way.mesh.pipe = 2;
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
    way.pipeline.schedule = kind;
    CAPTURE(kPipelines(kind));
    CHECK((trained(way) == expected));
  }
  way.pipeline.schedule = PipelineKind::gpipe;
  way.recompute = true;
  way.strategy = Strategy::fsdp;
  CHECK((trained(way) == expected));
}

namespace {

constexpr int kScored = 17;  // rows of the evaluation

struct Seen {
  std::string model, moments;
  std::vector<Metrics> metrics;  // of each evaluation
};

/// Whether the evaluations are the same. Texts of an evaluation are dealt to all ranks, and a GPU's
/// products round by their shapes: sums of up to 96 terms in six layers. Two neighbours in the
/// order of n scores that change places change Spearman's coefficient by at most
/// 12 / (n (n^2 - 1)).
void check_metrics(const std::vector<Metrics>& found, const std::vector<Metrics>& expected) {
  REQUIRE(found.size() == expected.size());
  const bool exact = default_device().type == DeviceType::cpu;
  constexpr double kSwap = 12.0 / (kScored * (kScored * kScored - 1));
  for (std::size_t i = 0; i < found.size(); ++i)
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      const auto& [name, value] = expected[i][k];
      const double rounding = name.find("spearman") == name.npos ? 6 * 96 * 0x1p-24 : kSwap;
      CHECK(found[i].at(k).first == name);
      CHECK(std::abs(found[i][k].second - value) <= (exact ? 0 : rounding));
    }
}

/// Six steps with an evaluation and a checkpoint after three.
Seen observed(const Way& way, const std::filesystem::path& output, bool resume = false) {
  TrainingArguments args = arguments(way);
  args.output_dir = output;
  args.save_strategy = SaveStrategy::steps;
  args.save_steps = 3;
  args.eval_strategy = EvalStrategy::steps;
  args.eval_steps = 3;
  if (resume) args.resume_from_checkpoint = output;
  Seen seen;
  run_trainers(way, args, [&](tiny::Model& model, Trainer& trainer, const comm::Group& group) {
    trainer.add_eval_datasets(tiny::datasets());
    const EmbeddingSimilarityEvaluator similarity(*words::scored_dataset(kScored), {});
    trainer.add_evaluator(
        [&](const EvaluationPoint& at) { return similarity.evaluate(model.encoder, at); });
    if (group.rank() == 0)
      trainer.add_callback({.on_evaluate = [&](const EvaluationReport& found) {
        seen.metrics.push_back(found.metrics);
      }});
    trainer.train();
  });
  seen.model = read_file(output / "checkpoint-6/model.safetensors");
  seen.moments = read_file(output / "checkpoint-6/optimizer.safetensors");
  return seen;
}

}  // namespace

TEST_CASE("a checkpoint of one mesh goes on under another, with the losses of evaluation") {
  for (const int tensor : grid({2}, {1})) {
    const TemporaryFolder folder;
    const auto way = [&](int pipe, Strategy strategy) {
      return Way{.mesh = {2, pipe, tensor},
                 .strategy = strategy,
                 .steps = 6,
                 .clip = tensor == 1 ? 1.0 : 0.0,
                 .sequence = tensor > 1};
    };
    const Seen expected = observed(way(1, Strategy::zero1), folder / "alone");
    REQUIRE(expected.metrics.size() == 2);
    const std::vector<Way> meshes{way(2, Strategy::ddp), way(3, Strategy::fsdp),
                                  way(2, Strategy::zero1)};
    for (std::size_t i = 0; i < meshes.size(); ++i) {
      CAPTURE(tensor);
      CAPTURE(i);
      const std::filesystem::path output = folder / str("mesh", i);
      const Seen whole = observed(meshes[i], output);
      CHECK((whole.model == expected.model));
      CHECK((whole.moments == expected.moments));
      check_metrics(whole.metrics, expected.metrics);
      // From its first checkpoint, under the next mesh.
      std::filesystem::remove_all(output / "checkpoint-6");
      const Seen resumed = observed(meshes[(i + 1) % meshes.size()], output, true);
      CHECK((resumed.model == expected.model));
      CHECK((resumed.moments == expected.moments));
      check_metrics({resumed.metrics.back()}, {expected.metrics.back()});
    }
  }
}

namespace {

Datasets anchors() {
  auto data = std::make_shared<TextDataset>(
      "anchors", std::vector<std::string>{"anchor", "positive"}, Target::none);
  for (std::size_t i = 0; i < 23; ++i) {
    const std::string first = words::text(i), second = words::text(i * 7 + 3);
    data->add_row(std::vector<std::string_view>{first, second});
  }
  return {data};
}

/// The gradient of a step of a ranking loss over 8 rows for each rank along `data`: what SGD of
/// rate 1 subtracts from the parameters.
std::vector<float> ranked(const MeshShape& mesh, PipelineKind schedule = PipelineKind::gpipe,
                          models::Negatives negatives = models::Negatives::global) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(mesh.data * mesh.pipe));
  comm::launch(
      [&](const comm::Group& group) {
        const models::SentenceEncoder encoder = six_layers(models::Architecture::mpnet);
        models::MultipleNegativesRankingLoss loss(encoder);
        loss.set_negatives(negatives);
        const std::vector<float> before = parameter_values(loss);
        TrainingArguments args = arguments({.mesh = mesh,
                                            .strategy = Strategy::ddp,
                                            .pipeline = {.schedule = schedule},
                                            .steps = 1,
                                            .clip = 0});
        args.per_device_train_batch_size = 2;
        args.optim = OptimizerKind::sgd;
        args.learning_rate = 1;
        args.lr_scheduler_type = Decay::constant;
        Trainer trainer(loss, anchors(), encoder.tokenizer(), args, group);
        trainer.train();
        std::vector<float>& mine = all[static_cast<std::size_t>(group.rank())] =
            parameter_values(loss);
        for (std::size_t i = 0; i < mine.size(); ++i) mine[i] -= before[i];
      },
      mesh.data * mesh.pipe, {.ranks = comm::Ranks::threads});
  for (const std::vector<float>& of_rank : all) CHECK(of_rank == all[0]);
  return all[0];
}

/// Largest difference over the largest value.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max<double>(most, std::abs(a[i] - b[i]));
    largest = std::max<double>(largest, std::abs(a[i]));
  }
  return most / largest;
}

}  // namespace

TEST_CASE("a loss that compares the rows of a step sees all micro-batches, under gpipe alone") {
  // The stages of a pipeline change no bit.
  CHECK(ranked({1, 2}) == ranked({1, 3}));
  CHECK(ranked({2, 2}) == ranked({2, 3}));
  // Without one, sums over some 100 tokens are in another order: 2 x 100 roundings of f32.
  constexpr double kBound = 200.0 / (1 << 24);
  for (const int data : {1, 2}) {
    const std::vector<float> expected = ranked({data, 1});
    const double found = difference(expected, ranked({data, 2}));
    MESSAGE("gradient: " << found << " of the largest, bound " << kBound);
    CHECK(found < kBound);
    // Negatives of a micro-batch alone are another loss.
    CHECK(difference(expected, ranked({data, 2}, PipelineKind::gpipe, models::Negatives::local)) >
          100 * kBound);
  }
  CHECK_THROWS_WITH_AS(ranked({1, 2}, PipelineKind::one_f_one_b),
                       doctest::Contains("pipeline_schedule 1f1b: a loss over the rows of all "
                                         "micro-batches waits for all forwards; expected gpipe"),
                       InputError);
}

TEST_CASE("a loss that compares rows among others is refused, whichever data set it is for") {
  const auto run = [](const comm::Group& group) {
    const models::SentenceEncoder encoder = six_layers(models::Architecture::mpnet);
    models::MultiLoss loss(encoder.modules(),
                           {std::make_shared<models::CosineSimilarityLoss>(encoder),
                            std::make_shared<models::MultipleNegativesRankingLoss>(encoder)});
    Trainer(loss, {words::scored_dataset(17), anchors()[0]}, encoder.tokenizer(),
            arguments({.mesh = {1, 2}, .strategy = Strategy::ddp}), group);
  };
  CHECK_THROWS_WITH_AS(
      comm::launch(run, 2, {.ranks = comm::Ranks::threads}),
      doctest::Contains("pipeline: MultiLoss holds a loss that compares the rows of a step"),
      InputError);
}

TEST_CASE("the model is saved after its trainer has ended, under every strategy") {
  for (const Strategy strategy : kStrategiesOfRanks) {
    CAPTURE(kStrategies(strategy));
    const Way way{.mesh = {2, 2}, .strategy = strategy};
    const TemporaryFolder folder;
    comm::launch(
        [&](const comm::Group& group) {
          tiny::Model model;
          model.train(six_layers(way.architecture));
          Trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), arguments(way), group)
              .train();
          model.encoder.save(folder / "model");
        },
        4, {.ranks = comm::Ranks::threads});
    CHECK((read_file(folder / "model/model.safetensors") == trained(way)));
  }
}

TEST_CASE("FSDP's units may be classes that one stage alone has, and a stage may be frozen") {
  Way way{.mesh = {2}, .strategy = Strategy::fsdp};
  TrainingArguments args = arguments(way);
  args.strategy_options.units.classes = {"MPNetLayer", "Embeddings"};
  std::vector<std::string> models;
  const std::pair<int, PipelineKind> pipes[] = {{1, PipelineKind::one_f_one_b},
                                                {3, PipelineKind::one_f_one_b},
                                                {2, PipelineKind::interleaved}};
  for (const auto& [pipe, kind] : pipes) {
    args.mesh.pipe = way.mesh.pipe = pipe;
    args.pipeline.schedule = kind;
    const TemporaryFolder folder;
    run_trainers(way, args, [&](tiny::Model& model, Trainer& trainer, const comm::Group&) {
      for (const nn::NamedParameter& one : model.encoder.modules()->named_parameters())
        if (one.name.starts_with("embeddings") || one.name.find("layer.0.") != one.name.npos ||
            one.name.find("layer.1.") != one.name.npos ||
            one.name.find("bias.weight") != one.name.npos)
          one.parameter.set_requires_grad(false);
      trainer.train();
      model.encoder.save(folder / "model");
    });
    models.push_back(read_file(folder / "model/model.safetensors"));
  }
  CHECK((models[0] == models[1]));
  CHECK((models[0] == models[2]));
}

TEST_CASE("fewer micro-batches than ranks of a pipeline are noted") {
  const auto noted = [](std::size_t micro_batches) {
    const Way way{
        .mesh = {1, 2}, .strategy = Strategy::ddp, .micro_batches = micro_batches, .steps = 1};
    std::string notes;
    run_trainers(way, arguments(way),
                 [&](tiny::Model&, Trainer& trainer, const comm::Group& group) {
                   if (group.rank() == 0)
                     trainer.add_callback({.on_note = [&](const std::string& line) {
                       if (line.starts_with("gradient accumulation"))
                         notes += line;  // a GPU has others, too
                     }});
                   trainer.train();
                 });
    return notes;
  };
  CHECK_EQ(
      noted(1),
      "gradient accumulation of 1: the 2 ranks of a pipeline wait less with 2 micro-batches or "
      "more");
  CHECK_EQ(noted(2), "");
}

TEST_CASE("the header has the ranks of each axis and the cut, a timeline the computations") {
  const Way way{.mesh = {1, 2, 1}, .strategy = Strategy::ddp, .micro_batches = 2, .steps = 1};
  const char* const computed[] = {" 0F0 0F1 0B0 0B1", " 1F0 1B0 1F1 1B1"};
  run_trainers(way, arguments(way), [&](tiny::Model&, Trainer& trainer, const comm::Group& group) {
    const std::string header = trainer.header();
    RINGLET_CHECK(header.ends_with("  Ranks along data, pipe and tensor = 1 x 2 x 1\n"
                                   "  Layers of each pipeline stage = 3 + 3\n"
                                   "  Pipeline schedule = 1f1b\n"),
                  header);
    const Timeline timeline(Device{}, group.rank());
    trainer.train();
    std::string phases;
    for (const Span& span : timeline.spans())
      if (span.track == "steps" && span.name != "data" && span.name != "optimizer")
        phases += " " + span.name;
    RINGLET_CHECK(phases == computed[group.rank()], phases);
  });
  const Way sliced{.mesh = {1, 1, 2}, .strategy = Strategy::ddp, .sequence = true};
  run_trainers(sliced, arguments(sliced), [&](tiny::Model&, Trainer& trainer, const comm::Group&) {
    const std::string header = trainer.header();
    RINGLET_CHECK(header.ends_with("  Ranks along data, pipe and tensor = 1 x 1 x 2\n"
                                   "  Sequence parallelism = yes\n"),
                  header);
  });
}

TEST_CASE("bf16 under FSDP x pipe: a module after the transformer computes in f32") {
  TrainingArguments args = arguments(
      {.mesh = {2}, .strategy = Strategy::fsdp, .micro_batches = 2, .dtype = DType::bf16});
  args.strategy_options.units.classes = {"MPNetLayer", "Embeddings", "Dense"};
  std::vector<std::string> models;
  for (const int pipe : {1, 2}) {
    args.mesh.pipe = pipe;
    const TemporaryFolder folder;
    const auto run = [&](const comm::Group& group) {
      tiny::Model model;
      const models::SentenceEncoder layers = six_layers(models::Architecture::mpnet);
      const GeneratorGuard seeded(RandomGenerator{7, 0, 0});
      model.train(
          {std::make_shared<models::SentenceModules>(
               layers.transformer(), PoolingMode::mean,
               models::SentenceModules::After{std::make_shared<models::modules::Dense>(48, 20)}),
           layers.tokenizer()});
      Trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), args, group).train();
      model.encoder.save(folder / "model");
    };
    comm::launch(run, 2 * pipe, {.ranks = comm::Ranks::threads});
    models.push_back(read_file(folder / "model/model.safetensors") +
                     read_file(folder / "model/2_Dense/model.safetensors"));
  }
  CHECK((models[0] == models[1]));
}

TEST_CASE("ranks that should have the same rows and do not are named") {
  for (const MeshShape mesh : {MeshShape{1, 2, 1}, MeshShape{1, 1, 2}}) {
    const Way way{.mesh = mesh, .strategy = Strategy::ddp};
    const auto run = [&](const comm::Group& group) {
      tiny::Model model;
      model.train(six_layers(way.architecture));
      TrainingArguments args = arguments(way);
      args.seed += static_cast<std::uint64_t>(group.rank());  // another order
      Trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), args, group).train();
    };
    CHECK_THROWS_WITH_AS(comm::launch(run, 2, {.ranks = comm::Ranks::threads}),
                         doctest::Contains("of rank 1 has other rows than that of rank 0"), Error);
  }
  const auto other_label = [](const comm::Group& group) {
    models::BatchBuilder builder;
    const std::vector<std::int32_t> ids{3, 4};
    const std::span<const std::int32_t> sentence = ids;
    builder.add_row({&sentence, 1}, 0);
    builder.add_label(group.rank());
    const models::PackedBatch batch = builder.build().to(default_device());
    check_same_rows(group, group.rank(), {&batch, 1});
  };
  CHECK_THROWS_WITH_AS(comm::launch(other_label, 2), doctest::Contains("has other rows than"),
                       Error);
}

TEST_CASE("a mesh's loss has one trainer, also after its end") {
  for (const MeshShape mesh : {MeshShape{1, 2, 1}, MeshShape{1, 1, 2}}) {
    const Way way{.mesh = mesh, .strategy = Strategy::ddp};
    run_trainers(way, arguments(way), [&](tiny::Model& model, Trainer&, const comm::Group& group) {
      CHECK_THROWS_WITH_AS(
          Trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), arguments(way), group),
          doctest::Contains("an optimizer or a strategy"), Error);
    });
    const auto two = [&](const comm::Group& group) {
      tiny::Model model;
      model.train(six_layers(way.architecture));
      for (int i = 0; i < 2; ++i) {
        Trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), arguments(way), group)
            .train();
        CHECK(model.loss->runner() == nullptr);
      }
    };
    CHECK_THROWS_WITH_AS(comm::launch(two, 2, {.ranks = comm::Ranks::threads}),
                         doctest::Contains("an optimizer or a strategy"), Error);
  }
}

TEST_CASE("meshes, cuts and strategies that do not fit are refused") {
  const auto refused = [](Way way, const std::string& message) {
    CHECK_THROWS_WITH_AS(trained(way), doctest::Contains(message.c_str()), InputError);
  };
  const Way two{.mesh = {1, 2}, .strategy = Strategy::ddp};
  Way way = two;
  way.strategy = Strategy::none;
  refused(way, str("mesh pipe=2,tensor=1: expected strategy ", kStrategies.list_from(Strategy::ddp),
                   ", found none"));
  way = two;
  way.pipeline.layers = {3, 2};
  refused(way, "pipeline_layers: expected the sum 6, found 5");
  way.pipeline.layers = {6, 0};
  refused(way, "pipeline_layers: expected a whole number from 1 to 1048576, found 0");
  way = two;
  way.mesh = {1, 7};
  refused(way, "mesh pipe: expected at least one layer in each of 7 stages, the model has 6");
  way = two;
  way.pipeline.schedule = PipelineKind::zero_bubble;
  way.recompute = true;
  refused(way, "pipeline_schedule zero-bubble: its backward has two parts");
  CHECK_THROWS_WITH_AS((MeshShape{2, 2}.over(6)), "expected 4 ranks, found 6", InputError);
  for (const char* text :
       {"pipe=0", "data=2,data=2", "pipe", "rows=2", "pipe=2000", "pipe=x", "pipe=2,", ""}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_mesh(text),
                         doctest::Contains("expected axes such as data=2,pipe=4,tensor=2"),
                         InputError);
  }
  TrainingArguments args = arguments(two);
  args.strategy = Strategy::fsdp;
  args.strategy_options.units.classes = {"Encoder"};
  CHECK_THROWS_WITH_AS(run_trainers(two, args, [](auto&, auto&, const auto&) {}),
                       doctest::Contains("has layers of several stages of the pipeline"),
                       InputError);
  CHECK_THROWS_WITH_AS(run_trainers(two, arguments(two),
                                    [](tiny::Model& model, Trainer& trainer, const comm::Group&) {
                                      model.encoder.set_forward_per_column(true);
                                      trainer.train();
                                    }),
                       doctest::Contains("the encoder was called outside a step, or not once"),
                       Error);
}
