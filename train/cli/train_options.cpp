#include "ringlet/train/cli/train_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/folder.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/train/cli/existing_device.h"
#include "ringlet/train/cli/option_values.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/report/event_file.h"
#include "ringlet/train/timeline_callback.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kFineTuningRate = 2e-5;
constexpr double kFromScratchRate = 1e-3;
/// The default for the project's own data.
constexpr double kOwnDataEpochs = 2;

/// FILE:LOSS:LOSS would be read as a file with a colon in its name.
void check_one_loss(const std::string& text) {
  const auto is_loss = [](const std::string& name) {
    return std::ranges::find(kLosses.all, name) != kLosses.all.end();
  };
  const std::size_t last = text.rfind(':');
  if (last == text.npos || last == 0 || !is_loss(text.substr(last + 1))) return;
  const std::size_t before = text.rfind(':', last - 1);
  if (before != text.npos && is_loss(text.substr(before + 1, last - before - 1)))
    fail_input(text, ": expected one loss, found two");
}

void add_data_options(CLI::App& command, DataOptions& data) {
  command
      .add_option("--data", data.data,
                  "FILE or FILE:LOSS, may be repeated; random weights alone train on generated "
                  "sentences without it")
      ->check(parsed_by(check_one_loss));
  command.add_option("--loss", data.loss,
                     "Loss of files that name none: " + kLosses.list() +
                         "; by default what their columns call for");
  command.add_option("--eval", data.eval,
                     "A file to evaluate on, by the evaluator that its columns call for; may be "
                     "repeated");
  command.add_option("--columns", data.columns,
                     "Renames, in the files that have the column: NAME_IN_FILE=NAME,...");
  add_number(command, "--num-labels", data.num_labels, 2, 1 << 20,
             fmt::format("Refuse labels from this number on; needed for more than {} classes",
                         kMaxGuessedLabels));
  add_per_file_options(command, data.per_file);
  add_loss_options(command, data.losses);
  command.add_option("--teacher", data.teacher,
                     "mse: the folder of a model; a row's embeddings should be that of its first "
                     "text there");
}

void add_strategy_options(CLI::App& command, TrainOptions& options) {
  command.add_option("--strategy", options.strategy,
                     "How several devices train together: " + train::kStrategies.list() +
                         " (none, or ddp with --mesh)");
  add_number(command, "--devices", options.devices, 1, 1 << 10,
             "Devices of this machine, each with --batch rows of a step (1, or those of --mesh)");
  command
      .add_option("--mesh", options.mesh,
                  "A grid of devices, data=D,pipe=P,tensor=T: each has the rows of its place along "
                  "data, by the --strategy (ddp), the layers of its place along pipe, and its "
                  "slices of them along tensor")
      ->check(parsed_by(train::parse_mesh));
  command.add_flag("--tensor-sequence", options.arguments.tensor_sequence,
                   "Sequence parallelism: devices along the mesh's tensor also split the tokens "
                   "between an encoder's blocks");
  train::PipelineOptions& pipeline = options.arguments.pipeline;
  add_choice(command, "--pipeline-schedule", pipeline.schedule, train::kPipelines,
             "Order of a pipeline's micro-batches, --gradient-accumulation-steps of them: " +
                 train::kPipelines.list());
  add_list(command, "--pipeline-layers", pipeline.layers,
           "Layers of each stage, such as 2,3,3,4; by --pipeline-balance unless given",
           number_in(1, 1 << 20));
  add_choice(command, "--pipeline-balance", pipeline.balance, train::kPipelineBalances,
             "What stages share out evenly: " + train::kPipelineBalances.list() +
                 "; time is measured first");
  add_number(command, "--bucket-cap-mb", options.bucket_cap_mb, 1e-6, 1e6,
             "ddp: MiB of gradients that are summed at a time (25)");
  const auto add_switch = [&](const char* name, std::optional<bool>& value, const char* help) {
    command.add_option(name, value, help)->check(CLI::IsMember({"true", "false"}));
  };
  add_switch("--reshard-after-forward", options.reshard_after_forward,
             "fsdp: let a layer's parameters go after its forward (true); false keeps them for "
             "backward: more memory, a third less to move");
  add_switch("--prefetch", options.prefetch,
             "fsdp: gather the next layer while one computes, in forward and backward (true)");
  add_number(command, "--fsdp-shard-size", options.shard_size, 1, 1 << 10,
             "fsdp: so many consecutive ranks along data share one set of shards, and the others "
             "are replicas; "
             "all share one unless given");
  add_list(command, "--fsdp-units", options.units.classes,
           "fsdp: classes of the modules that are sharded as a whole, such as "
           "MPNetLayer,Embeddings; layers and embeddings unless given");
  add_number(command, "--fsdp-min-num-params", options.units.min_numel, std::int64_t{1},
             std::int64_t{1} << 40,
             "fsdp: also the modules with so many parameters outside inner units; alone, these "
             "instead of layers and embeddings");
  command
      .add_option("--transport", options.transport,
                  "How the ranks of a --strategy move bytes: auto, shm or gloo, nccl on GPUs")
      ->check(CLI::IsMember({"auto", "shm", "gloo", "nccl"}))
      ->capture_default_str();
  command
      .add_option("--algorithm", options.algorithm,
                  "Their collectives: direct (or auto) adds in rank order, ring to the neighbour")
      ->check(CLI::IsMember({"auto", "direct", "ring"}))
      ->capture_default_str();
  add_timeout(command, options.timeout);
}

void add_training_options(CLI::App& command, TrainOptions& options) {
  train::TrainingArguments& a = options.arguments;
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  add_number(command, "--epochs", a.num_train_epochs, 1e-6, 1e6,
             fmt::format("1 unless given; {} of the project's own data", kOwnDataEpochs));
  add_number(command, "--max-steps", a.max_steps, std::int64_t{1}, kMany, "Instead of epochs");
  add_number(command, "--batch", a.per_device_train_batch_size, 1, 1 << 20,
             "Rows of a step on one device")
      ->capture_default_str();
  add_number(command, "--lr", a.learning_rate, 1e-12, 10.0,
             fmt::format("Learning rate; {} for a trained model, {} for a new one", kFineTuningRate,
                         kFromScratchRate));
  add_number(command, "--warmup", options.warmup, 0.0, 1e12, "Steps, or below 1 their share of all")
      ->capture_default_str();
  add_choice(command, "--schedule", a.lr_scheduler_type, train::kDecays,
             "How the learning rate falls behind the warm-up");
  add_choice(command, "--optimizer", a.optim, train::kOptimizers, train::kOptimizers.list());
  add_choice(command, "--step-graphs", a.step_graphs, train::kStepGraphModes,
             "On a GPU, capture a step of each shape once and replay it: auto or off; the results "
             "are the same");
  add_number(command, "--momentum", a.momentum, 0.0, 1.0, "SGD's")->capture_default_str();
  add_number(command, "--weight-decay", a.weight_decay, 0.0, 10.0,
             "Of all but biases and LayerNorm")
      ->capture_default_str();
  add_number(command, "--clip", a.max_grad_norm, 0.0, 1e9,
             "Global norm of gradients at most; 0: no clipping")
      ->capture_default_str();
  add_number(command, "--gradient-accumulation-steps", a.gradient_accumulation_steps, 1, 1 << 20,
             "Batches of each device whose gradients make a step; one batch for a ranking loss")
      ->capture_default_str();
  add_number(command, "--mini-batch-size", a.mini_batch_size, 0, 1 << 20,
             "Rows of one forward, for the memory of so many at any batch size; 0: all")
      ->capture_default_str();
  command
      .add_option("--memory-limit", options.memory_limit,
                  "Most that the tensors of each device may take: bytes, or with KiB, MiB or GiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false));
  add_seed(command, a.seed, "Of weights, order, dropout and the project's own data");
  add_choice(command, "--dealing", a.multi_dataset_batch_sampler, train::kDealings,
             "How batches of several data sets alternate: proportional uses every row, round_robin "
             "ends an epoch with the smallest data set");
  add_choice(command, "--batch-sampler", options.batch_sampler, train::kBatchSamplers,
             "Which rows form a batch: batch_sampler, their order; no_duplicates, the default for "
             "mnrl and symmetric, none that share a text; group_by_label, the default for "
             "batch_hard, some of each label");
  command.add_flag("!--no-shuffle", a.shuffle, "Take the rows of each file in their order");
  command.add_flag("--gradient-checkpointing", a.gradient_checkpointing,
                   "Compute each layer again in backward: less memory, one more forward");
  command.add_flag("--padded", a.padded, "Pad each column, to see what it costs");
  add_number(command, "--logging-steps", a.logging_steps, std::int64_t{0}, kMany,
             "A line of metrics every so many steps and at the last; 0: none")
      ->capture_default_str();
}

/// An option of one strategy is refused with any other.
void check_strategy_options(const TrainOptions& options, train::Strategy strategy) {
  const auto needs = [&](train::Strategy owner, const char* option, const std::string& value) {
    if (strategy != owner)
      fail_input(option, " ", value, ": needs --strategy ", train::kStrategies(owner));
  };
  const auto text = [](bool value) { return value ? "true" : "false"; };
  if (options.bucket_cap_mb)
    needs(train::Strategy::ddp, "--bucket-cap-mb", str(*options.bucket_cap_mb));
  if (options.reshard_after_forward)
    needs(train::Strategy::fsdp, "--reshard-after-forward", text(*options.reshard_after_forward));
  if (options.shard_size > 0)
    needs(train::Strategy::fsdp, "--fsdp-shard-size", str(options.shard_size));
  if (options.prefetch) needs(train::Strategy::fsdp, "--prefetch", text(*options.prefetch));
  if (!options.units.classes.empty())
    needs(train::Strategy::fsdp, "--fsdp-units",
          fmt::format("{}", fmt::join(options.units.classes, ",")));
  if (options.units.min_numel > 0)
    needs(train::Strategy::fsdp, "--fsdp-min-num-params", str(options.units.min_numel));
}

/// A run that ended before its first checkpoint leaves metrics and hidden files.
void check_free_folder(const fs::path& output) {
  if (const auto latest = train::latest_checkpoint(output))
    fail_input("--output ", output.string(), ": the folder has a run; --resume goes on from its ",
               latest->filename().string());
  if (!path_exists(output / train::kMetrics)) return check_new_folder("--output", output);
  check_writable_folder("--output", output);
  for (const fs::path& path : list_folder(output)) {
    const std::string name = path.filename().string();
    if (!name.starts_with('.') && name != train::kMetrics &&
        !name.starts_with(str(train::kMetrics, ".tmp.")) && name != "eval" &&
        !name.starts_with(train::kEventFile))
      fail_input("--output ", output.string(), ": the folder is not empty");
  }
  fmt::print(stderr, "{}: a run that ended before its first checkpoint is started again\n",
             output.string());
}

/// The sampler that the losses need.
train::BatchSampler sampler_of(const TrainingData& data) {
  std::optional<train::BatchSampler> found;
  for (const Source& source : data.sources) {
    const std::optional<train::BatchSampler> needed = sampler_of(source.loss);
    if (found && needed && *found != *needed)
      fail_input("--data: the losses need the batch samplers ", train::kBatchSamplers(*found),
                 " and ", train::kBatchSamplers(*needed), "; expected --batch-sampler with one");
    if (needed) found = needed;
  }
  return found.value_or(train::BatchSampler::batch_sampler);
}

}  // namespace

bool from_scratch(const TrainOptions& options) {
  return !models::names_folder(options.model.model);
}

void add_train_options(CLI::App& command, TrainOptions& options) {
  add_model_options(command, options.model,
                    "A folder, or random weights: tiny, minilm-l6, bert-base or mpnet-base");
  command.get_option("--model")->check(parsed_by(models::check_model_name));
  command.add_option("--vocab", options.vocab,
                     "vocab.txt or tokenizer.json of a new model; else learned from the data");
  add_data_options(command, options.data);
  add_prompt_options(command, options.prompts);
  add_training_options(command, options);
  add_evaluation_options(command, options.evaluation, options.arguments);
  add_strategy_options(command, options);
  command
      .add_option("--output", options.arguments.output_dir,
                  "A new or empty folder, or one of a run that ended before its first checkpoint")
      ->capture_default_str();
  command.add_flag("--tensorboard", options.arguments.tensorboard,
                   "Also write metrics.jsonl's figures as TensorBoard's event files");
  command
      .add_option("--timeline", options.timeline,
                  fmt::format("FILE.json or FILE.svg: write the first {} steps of each rank as a "
                              "trace for Perfetto or Chrome to the one, draw the last of them as "
                              "the other",
                              train::kTimelineSteps))
      ->check(parsed_by([](const std::string& file) { train::TimelineFiles{file}; }));
  command.add_flag("--resume", options.resume, "Go on from the latest checkpoint in --output");
  command.add_flag("--no-progress", options.no_progress, "Print warnings alone until the end");
}

void check(const TrainOptions& options) {
  use_device(options.model);
  if (from_scratch(options)) {
    models::EncoderConfig::named(options.model.model);
  } else if (!options.vocab.empty()) {
    fail_input("--vocab ", options.vocab, ": ", options.model.model, " has its own vocabulary");
  } else if (options.data.data.empty()) {
    fail_input("--model ", options.model.model,
               ": a trained model needs --data; generated sentences are for random weights alone");
  }
  if (!options.data.loss.empty())
    of_option("--loss", [&] { return kLosses.parse(options.data.loss); });
  if (options.arguments.momentum != 0 && options.arguments.optim != train::OptimizerKind::sgd)
    fail_input("--momentum ", options.arguments.momentum, ": needs --optimizer sgd");
  if (options.arguments.optim == train::OptimizerKind::sgd && options.arguments.learning_rate == 0)
    fail_input("--optimizer sgd: needs --lr; the rates by default are adamw's");
  check(options.evaluation, options.arguments);
  check_writable_folder("--output", options.arguments.output_dir);
}

void check_output(TrainOptions& options, const comm::Environment& environment) {
  if (!options.timeline.empty() && environment.rank == 0) {
    const train::TimelineFiles files(options.timeline);
    for (const fs::path& file : {files.trace, files.drawing}) check_output_file("--timeline", file);
  }
  const fs::path& output = options.arguments.output_dir;
  const bool restarted = environment.restart_count > 0;
  // Only rank 0 checks: other ranks may find files that it has begun to write.
  if (!options.resume && !restarted && environment.rank == 0) check_free_folder(output);
  if (options.resume && !restarted && !train::latest_checkpoint(output))
    fail_input("--resume: there is no checkpoint in ", output.string());
  if (restarted) options.resume = train::latest_checkpoint(output).has_value();
}

int apply_mesh(TrainOptions& options, int launched) {
  const std::string given = options.devices > 0 ? str("--devices ", options.devices, ' ') : "";
  options.devices = std::max(options.devices, 1);
  int ranks = launched > 1 ? launched : options.devices;
  if (options.strategy.empty()) options.strategy = options.mesh.empty() ? "none" : "ddp";
  if (options.mesh.empty()) return ranks;
  train::MeshShape& mesh = options.arguments.mesh;
  mesh = train::parse_mesh(options.mesh);
  if (options.strategy == "none" || options.strategy == "dp") return ranks;  // refused later
  const std::int64_t least = std::int64_t{std::max(mesh.data, 1)} * mesh.pipe * mesh.tensor;
  if (least > 1024) fail_input("--mesh ", options.mesh, ": expected at most 1024 ranks");
  if (launched <= 1 && given.empty()) ranks = options.devices = static_cast<int>(least);
  return of_option(str(launched > 1 ? "" : given, "--mesh ", options.mesh),
                   [&] { return mesh.over(ranks); })
      .data;
}

void check_devices(const TrainOptions& options, train::Strategy strategy, bool launched) {
  const std::string of_processes = train::kStrategies.list_from(train::Strategy::ddp);
  if (launched && options.devices > 1)
    fail_input("--devices ", options.devices, ": the launcher started the ranks already");
  if (launched && (strategy == train::Strategy::none || strategy == train::Strategy::dp))
    fail_input("--strategy ", options.strategy, ": this is one of several ranks; expected ",
               of_processes);
  if (strategy == train::Strategy::none && options.devices > 1)
    fail_input("--devices ", options.devices, ": needs a --strategy of several: ",
               train::kStrategies.list_from(train::Strategy::dp));
  if (options.transport == "nccl" && existing_device(options.model.device).type == DeviceType::cpu)
    fail_input(
        "--transport nccl: is for tensors on GPUs; expected auto, shm or gloo with --device cpu");
  check_strategy_options(options, strategy);
  const train::PipelineOptions& pipeline = options.arguments.pipeline;
  const bool staged = options.arguments.mesh.pipe > 1;
  const bool alone = strategy == train::Strategy::none || strategy == train::Strategy::dp;
  if (!options.mesh.empty() && alone)
    fail_input("--mesh ", options.mesh,
               ": needs a --strategy of several processes: ", of_processes);
  if (options.arguments.tensor_sequence && options.arguments.mesh.tensor == 1)
    fail_input("--tensor-sequence: needs --mesh with tensor=2 or more");
  const train::PipelineOptions usual;
  const bool balances = pipeline.balance != usual.balance;
  if (!staged && (!pipeline.layers.empty() || balances || pipeline.schedule != usual.schedule))
    fail_input("--pipeline-schedule, --pipeline-layers and --pipeline-balance: need --mesh with ",
               "pipe=2 or more");
  if (balances && !pipeline.layers.empty())
    fail_input("--pipeline-balance: expected no --pipeline-layers, which decide");
  if (!alone) return;
  const auto refuse = [&](const char* option, const auto& value) {
    fail_input(option, " ", value, ": needs a --strategy of several processes: ", of_processes);
  };
  if (options.transport != "auto") refuse("--transport", options.transport);
  if (options.algorithm != "auto") refuse("--algorithm", options.algorithm);
  if (options.timeout > 0) refuse("--timeout", options.timeout);
}

comm::GroupOptions group_options(const TrainOptions& options) {
  const bool recorded = !options.timeline.empty();
  return with_timeout(
      {.transport = comm::parse_transport(options.transport),
       .algorithm = comm::parse_algorithm(options.algorithm),
       .timed = recorded && existing_device(options.model.device).type != DeviceType::cpu,
       .observer = recorded ? &train::Timeline::of_collectives() : nullptr,
       .on_note = [](const std::string& line) { fmt::print(stderr, "{}\n", line); }},
      options.timeout);
}

void check_batch(const TrainOptions& options, const TrainingData& data, int devices) {
  const int passes = options.arguments.gradient_accumulation_steps;
  const std::size_t step =
      options.arguments.per_device_train_batch_size * static_cast<std::size_t>(devices * passes);
  const std::string several = str(devices > 1 ? str(" on each of ", devices, " devices") : "",
                                  passes > 1 ? str(", ", passes, " times a step,") : "");
  for (const Source& source : data.sources)
    if (const std::size_t rows = source.dataset->size(); rows < step)
      fail_input(source.dataset->name(), ": --batch ",
                 options.arguments.per_device_train_batch_size, several, " is more than its ", rows,
                 rows == 1 ? " row" : " rows");
}

train::TrainingArguments training_arguments(const TrainOptions& options, const TrainingData& data) {
  train::TrainingArguments arguments = options.arguments;
  if (arguments.learning_rate == 0)
    arguments.learning_rate = from_scratch(options) ? kFromScratchRate : kFineTuningRate;
  if (arguments.num_train_epochs == 0)
    arguments.num_train_epochs = options.data.data.empty() ? kOwnDataEpochs : 1;
  const bool ratio = options.warmup < 1;
  arguments.warmup_ratio = ratio ? options.warmup : 0;
  arguments.warmup_steps = ratio ? 0 : std::llround(options.warmup);
  set_strategies(options.evaluation, arguments);
  arguments.dtype = parse_dtype(options.model.dtype);
  const train::StrategyOptions usual;
  arguments.strategy_options = {
      .bucket_cap_mb = options.bucket_cap_mb.value_or(usual.bucket_cap_mb),
      .reshard_after_forward = options.reshard_after_forward.value_or(usual.reshard_after_forward),
      .prefetch = options.prefetch.value_or(usual.prefetch),
      .units = options.units,
      .shard_size = options.shard_size,
      .on_note = group_options(options).on_note};
  if (options.resume) arguments.resume_from_checkpoint = arguments.output_dir;
  arguments.batch_sampler = options.batch_sampler.value_or(sampler_of(data));
  return arguments;
}

}  // namespace ringlet::cli
