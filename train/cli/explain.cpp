// `ringlet explain`: what ranks exchange, from the schedules and layouts that a run executes.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "ringlet/core/io/file.h"
#include "ringlet/models/encoder_layer.h"
#include "ringlet/models/folder.h"
#include "ringlet/train/checkpoint/snapshot.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/cli/schedule_pictures.h"
#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/parallel/step_traffic.h"

namespace ringlet::cli {
namespace {

void write_drawing(const std::string& file, const std::string& drawing) {
  check_output_file("--svg", file);
  write_file(file, drawing);
  fmt::print(stderr, "wrote {}\n", file);
}

struct RingOptions {
  int ranks = 4;
  std::string svg;
};

void explain_ring(const RingOptions& options) {
  const auto moves = comm::all_moves(comm::Op::all_reduce, comm::Algorithm::ring, options.ranks);
  if (!options.svg.empty()) write_drawing(options.svg, draw_ring(moves, options.ranks));
  fmt::print("{}", describe_ring(moves, options.ranks));
}

struct TreeOptions {
  int ranks = 3, logical_ranks = 8;
};

void explain_tree(const TreeOptions& options) {
  if (options.logical_ranks < options.ranks)
    fail_input("--logical-ranks ", options.logical_ranks, ": expected at least --ranks ",
               options.ranks);
  fmt::print("{}", describe_tree(options.ranks, options.logical_ranks));
}

struct PipelineOptions {
  int stages = 4, chunks = 1, micro_batches = 8;
  train::PipelineKind kind = train::PipelineKind::one_f_one_b;
  std::string svg;
};

void explain_pipeline(const PipelineOptions& options) {
  if (options.stages % options.chunks != 0)
    fail_input("--stages ", options.stages, ": expected a multiple of --chunks ", options.chunks);
  const train::PipelineShape shape{options.stages / options.chunks, options.micro_batches,
                                   options.chunks};
  const std::string text =
      of_option("--schedule", [&] { return describe_pipeline(options.kind, shape); });
  if (!options.svg.empty()) write_drawing(options.svg, draw_pipeline(options.kind, shape));
  fmt::print("{}", text);
}

struct ShardingOptions {
  std::string model = "mpnet-base";
  int ranks = 8;
};

/// Its shapes, without memory for its weights.
std::shared_ptr<models::Transformer> blank_model(const std::string& name) {
  const models::BlankWeights without_memory;
  if (!models::names_folder(name))
    return models::Transformer::create(models::EncoderConfig::named(name));
  const models::SentenceSettings settings = models::read_settings(models::cached_folder(name));
  return models::Transformer::create(
      models::EncoderConfig::from_file(settings.transformer / "config.json"));
}

/// The traffic of the rank that sends most.
train::StepTraffic most_traffic(train::Strategy strategy, nn::Module& module, int ranks) {
  train::StepTraffic most;
  for (int rank = 0; rank < ranks; ++rank) {
    const train::StepTraffic one = train::step_traffic(strategy, module, rank, ranks);
    if (one.total() >= most.total()) most = one;
  }
  return most;
}

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) * 1e-6);
}

void explain_sharding(const ShardingOptions& options) {
  constexpr int kMoments = 2;  // AdamW's
  const auto model = blank_model(options.model);
  const auto arena = nn::plan(*model);
  const std::int64_t parameters = model->num_parameters();
  fmt::print("{}: {} parameters in {} units, {} MB; {} ranks, f32, AdamW\n\n", options.model,
             parameters, arena->units().size(),
             megabytes(static_cast<std::size_t>(parameters) * sizeof(float)), options.ranks);
  fmt::print(
      "MB of a rank  sent in a step                  kept\n"
      "strategy      gradients  parameters      all  parameters  gradients  optimizer  whole "
      "units      all\n");
  for (const train::Strategy strategy : train::kStrategiesOfRanks) {
    const train::StepTraffic sent = most_traffic(strategy, *model, options.ranks);
    const train::MemoryNeed kept = train::memory_need(strategy, *model, options.ranks, kMoments);
    fmt::print("{:<12}  {:>9}  {:>10}  {:>7}  {:>10}  {:>9}  {:>9}  {:>11}  {:>7}\n",
               train::kStrategies(strategy), megabytes(sent.gradients), megabytes(sent.parameters),
               megabytes(sent.total()), megabytes(kept.parameters), megabytes(kept.gradients),
               megabytes(kept.state), megabytes(kept.whole), megabytes(kept.total()));
  }
  const auto of_shards = [&](int moments) {
    return megabytes(
        train::memory_need(train::Strategy::fsdp, *model, options.ranks, moments).state);
  };
  if (options.ranks > 1)
    fmt::print(
        "\n--redundancy 1 sends {} MB more under a strategy that shards, and keeps up to {} MB "
        "more.\n",
        of_shards(1 + kMoments), of_shards(train::moments_of_copies(kMoments)));
  fmt::print(
      "\nOne batch a step. Activations and the loss's own parameters are not counted. On CPUs "
      "only the rows\nof the word embeddings that a batch uses are sent, if they are fewer.\n");
}

void add_ring(Command& explain) {
  Command& command = explain.add_command(
      "ring", "The steps of a ring's all-reduce: the schedule that ranks execute");
  const auto options = std::make_shared<RingOptions>();
  command.add("-n,--ranks", options->ranks, Range{2, 16}, "Ranks");
  command.add("--svg", options->svg, "Also draw them to this file");
  command.run = [options] { explain_ring(*options); };
}

void add_tree(Command& explain) {
  Command& command = explain.add_command(
      "tree", "The sums over logical ranks, the same on any number of ranks, and who adds them");
  const auto options = std::make_shared<TreeOptions>();
  command.add("-n,--ranks", options->ranks, Range{1, 64}, "Ranks");
  command.add("--logical-ranks", options->logical_ranks, Range{1, 64}, "Logical ranks");
  command.run = [options] { explain_tree(*options); };
}

void add_pipeline(Command& explain) {
  Command& command = explain.add_command(
      "pipeline", "The computations of a pipeline's ranks in time, and how long they wait");
  const auto options = std::make_shared<PipelineOptions>();
  command.add("--schedule", options->kind, train::kPipelines, train::kPipelines.list());
  command.add("--stages", options->stages, Range{1, 64}, "Stages of the model");
  command.add("--micro-batches", options->micro_batches, Range{1, 256}, "Parts of a batch");
  command.add("--chunks", options->chunks, Range{1, 16},
              "Stages of each rank; interleaved-1f1b needs 2 or more");
  command.add("--svg", options->svg, "Also draw them to this file");
  command.run = [options] { explain_pipeline(*options); };
}

constexpr int kMostDrawn = 4;  // ranks of a step that is executed

void add_sharding(Command& explain, train::Strategy strategy) {
  Command& command = explain.add_command(
      std::string(train::kStrategies(strategy)),
      "A step as ranks execute it; the bytes that a rank sends and keeps, by strategy");
  const auto options = std::make_shared<ShardingOptions>();
  command.add("--model", options->model, models::check_model_name,
              "A folder, or tiny, minilm-l6, bert-base or mpnet-base");
  command.add("-n,--ranks", options->ranks, Range{1, 1024}, "Ranks");
  command.run = [options, strategy] {
    explain_sharding(*options);
    fmt::print("\n{}", describe_step(strategy, std::min(options->ranks, kMostDrawn)));
  };
}

void add_tensor(Command& explain) {
  Command& command =
      explain.add_command("tensor", "A step of tensor parallelism as ranks execute it");
  const auto ranks = std::make_shared<int>(2);
  command.add("-n,--ranks", *ranks, Range{2, kMostDrawn}, "Ranks");
  command.run = [ranks] { fmt::print("{}", describe_step({}, *ranks)); };
}

}  // namespace

void add_explain(Command& program) {
  Command& command =
      program.add_command("explain", "Print what ranks exchange, and what each of them keeps");
  add_ring(command);
  add_tree(command);
  add_pipeline(command);
  for (const train::Strategy strategy : train::kStrategiesOfRanks) add_sharding(command, strategy);
  add_tensor(command);
}

}  // namespace ringlet::cli
