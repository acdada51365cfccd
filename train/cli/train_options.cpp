#include "ringlet/train/cli/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ringlet/core/io/file.h"
#include "ringlet/models/folder.h"
#include "ringlet/train/argument_table.h"
#include "ringlet/train/checkpoint/audit.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/report/event_file.h"
#include "ringlet/train/report/timeline.h"
#include "ringlet/train/step/trainer_callback.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;
using train::Strategy;

constexpr double kFineTuningRate = 2e-5;
constexpr double kFromScratchRate = 1e-3;
/// The default for the project's own data.
constexpr double kOwnDataEpochs = 2;

/// FILE:LOSS:LOSS would be read as a file with a colon in its name.
void check_one_loss(const std::string& text) {
  const std::size_t last = text.rfind(':');
  if (last == text.npos || last == 0 || !find_loss(text.substr(last + 1))) return;
  const std::size_t before = text.rfind(':', last - 1);
  if (before != text.npos && find_loss(text.substr(before + 1, last - before - 1)))
    fail_input(text, ": expected one loss, found two");
}

void add_data_options(Command& command, DataOptions& data) {
  command.add("--data", data.data, check_one_loss,
              "FILE or FILE:LOSS, may be repeated; random weights alone train on generated "
              "sentences without it");
  command.add(
      "--loss", data.loss, [](const std::string& name) { return &parse_loss(name); },
      "Loss of files that name none: " + loss_names() + "; by default what their columns call for");
  command.add("--eval", data.eval,
              "A file to evaluate on, by the evaluator that its columns call for; may be "
              "repeated");
  command
      .add("--columns", data.columns,
           "Renames, in the files that have the column: NAME_IN_FILE=NAME,...")
      .setting = "columns";
  command.add("--num-labels", data.num_labels, Range{2, 1 << 20},
              fmt::format("Refuse labels from this number on; needed for more than {} classes",
                          kMaxGuessedLabels));
  command.add("--split", data.split,
              "The value in the column split of the rows to train on, for --data files that "
              "have one; FILE=NAME for one file; may be repeated");
  command.add("--eval-split", data.eval_split, "The same for --eval files");
  const auto check_scale = [](const std::string& text) {
    parse_in(kScoreScales, text.substr(text.rfind('=') + 1));
  };
  command.add("--score-scale", data.score_scale, check_scale,
              "The best score of all files, or FILE=SCALE of one, may be repeated: 1, or 5 for the "
              "STS benchmark, unless given");
  add_loss_options(command, data.losses);
  command.add("--teacher", data.teacher,
              "mse: the folder of a model; a row's embeddings should be that of its first "
              "text there");
}

/// An option for each argument that has one.
void add_arguments(Command& command, train::TrainingArguments& arguments) {
  const auto add = [&]<class T>(const train::ArgumentRow& row, T& field, const auto&... limits) {
    const std::string name = row.option;
    if (name.empty()) return;
    Option* option = nullptr;
    if constexpr (std::same_as<T, std::optional<bool>>)
      option = &command.add(name, field, parse_bool, row.help);
    else if constexpr (requires { command.add_list(name, field, limits..., row.help); })
      option = &command.add_list(name, field, limits..., row.help);
    else if constexpr (requires { command.add(name, field, limits..., row.help); })
      option = &command.add(name, field, limits..., row.help);
    RINGLET_CHECK(option, "[options] ", name, " is of a type that no option has");
    option->setting = row.name;
  };
  each_argument(arguments, add);
}

void add_device_options(Command& command, TrainOptions& options) {
  command.add("--devices", options.devices, Range{1, 1 << 12},
              "Devices of this machine, each with --batch rows of a step (1, or those of --mesh)");
  command
      .add("--mesh", options.arguments.mesh, train::parse_mesh,
           "A grid of devices, data=D,pipe=P,tensor=T: each has the rows of its place along data, "
           "by the --strategy (ddp), the layers of its place along pipe, and its slices of them "
           "along tensor")
      .setting = "mesh";
  command.add("--transport", options.transport, OneOf{{"auto", "shm", "gloo", "nccl"}},
              "How the ranks of a --strategy move bytes: auto, shm or gloo, nccl on GPUs");
  command.add(
      "--algorithm", options.algorithm, OneOf{{"auto", "direct", "ring"}},
      "Their collectives: direct adds by a fixed tree, ring to the neighbour; auto is direct, "
      "in one launch on each GPU where they have peer access");
  add_timeout(command, options.timeout);
  command.add("--memory-limit", options.memory_limit, parse_bytes,
              "Most that the tensors of each device may take: bytes, or with KiB, MiB or GiB");
}

void add_early_stopping(Command& command, train::EarlyStoppingOptions& options) {
  command.add("--early-stopping-patience", options.patience,
              Range{std::int64_t{1}, std::int64_t{1} << 40},
              "End after so many evaluations in succession that are not better");
  command.add("--early-stopping-threshold", options.threshold, Range{0.0, 1e300},
              "Better means by more than this");
}

void print_note(const std::string& line) { fmt::print(stderr, "{}\n", line); }

/// The sampler that the losses need.
train::BatchSampler sampler_of(const TrainingData& data) {
  std::optional<train::BatchSampler> found;
  for (const Source& source : data.sources) {
    const std::optional<train::BatchSampler> needed = source.loss->sampler;
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

void add_train_options(Command& command, TrainOptions& options) {
  add_model_options(command, options.model,
                    "A folder, or random weights: tiny, minilm-l6, bert-base or mpnet-base");
  command.add("--vocab", options.vocab,
              "vocab.txt or tokenizer.json of a new model; else learned from the data");
  add_data_options(command, options.data);
  add_prompt_options(command, options.prompts);
  add_arguments(command, options.arguments);
  command.add("--warmup", options.warmup, Range{0.0, 1e12}, "Steps, or below 1 their share of all");
  add_early_stopping(command, options.early_stopping);
  add_device_options(command, options);
  command.add(
      "--timeline", options.timeline, [](const std::string& file) { train::TimelineFiles{file}; },
      fmt::format("FILE.json or FILE.svg: write the first {} steps of each rank as a trace for "
                  "Perfetto or Chrome to the one, draw the last of them as the other",
                  train::kTimelineSteps));
  command.add("--resume", options.resume, "Go on from the latest checkpoint in --output");
  command.add("--no-progress", options.no_progress, "Print warnings alone until the end");
}

comm::GroupOptions group_options(const TrainOptions& options) {
  const bool recorded = !options.timeline.empty();
  return with_timeout(
      {.transport = comm::parse_transport(options.transport),
       .algorithm = comm::parse_algorithm(options.algorithm),
       .timed = recorded && Device::parse(options.model.device).type != DeviceType::cpu,
       .observer = recorded ? &train::Timeline::of_collectives() : nullptr,
       .on_note = print_note},
      options.timeout);
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
  if (arguments.eval_steps > 0) arguments.eval_strategy = train::EvalStrategy::steps;
  if (arguments.save_steps > 0) arguments.save_strategy = train::SaveStrategy::steps;
  // Without steps given it has no effect, and no model card names it.
  if (arguments.save_steps == 0 && arguments.save_strategy != train::SaveStrategy::steps)
    arguments.save_steps = train::TrainingArguments{}.save_steps;
  arguments.dtype = parse_dtype(options.model.dtype);
  arguments.strategy_options.on_note = print_note;
  if (options.resume) arguments.resume_from_checkpoint = arguments.output_dir;
  if (!options.is_given("--batch-sampler")) arguments.batch_sampler = sampler_of(data);
  return arguments;
}

// ---- checks before a file is read ----

namespace {

/// An option of one strategy is refused with any other.
void check_strategy_options(const TrainOptions& options) {
  each_argument(options.arguments, [&](const train::ArgumentRow& row, const auto&...) {
    const Strategy owner = row.traits & train::kDdp ? Strategy::ddp : Strategy::fsdp;
    if ((row.traits & (train::kDdp | train::kFsdp)) && options.is_given(row.option) &&
        options.arguments.strategy != owner)
      fail_input(row.option, " ", options.text_of(row.option), ": needs --strategy ",
                 train::kStrategies(owner));
  });
}

/// An option about evaluations without effect is refused.
void check_evaluation(const TrainOptions& options) {
  const auto check_interval = [&](const char* steps, std::int64_t interval, const char* strategy) {
    if (interval > 0 && options.is_given(strategy) && options.text_of(strategy) != "steps")
      fail_input(steps, ' ', interval, ": needs ", strategy, " steps, found ",
                 options.text_of(strategy));
  };
  check_interval("--eval-steps", options.arguments.eval_steps, "--eval-strategy");
  check_interval("--save-steps", options.arguments.save_steps, "--save-strategy");
  for (const char* option : {"--early-stopping-patience", "--greater-is-better"})
    if (options.is_given(option) && !train::compares_evaluations(options.arguments))
      fail_input(option, ": needs --metric-for-best-model or --load-best-model-at-end");
  if (options.early_stopping.threshold > 0 && options.early_stopping.patience == 0)
    fail_input("--early-stopping-threshold ", options.early_stopping.threshold,
               ": needs --early-stopping-patience");
}

void check_pipeline(const TrainOptions& options) {
  const train::PipelineOptions &pipeline = options.arguments.pipeline, usual;
  const bool balances = pipeline.balance != usual.balance;
  if (options.arguments.mesh.pipe <= 1 &&
      (!pipeline.layers.empty() || balances || pipeline.schedule != usual.schedule))
    fail_input("--pipeline-schedule, --pipeline-layers and --pipeline-balance: need --mesh with ",
               "pipe=2 or more");
  if (balances && !pipeline.layers.empty())
    fail_input("--pipeline-balance: expected no --pipeline-layers, which decide");
}

void check_model(const TrainOptions& options) {
  of_option("--model", [&] { models::check_model_name(options.model.model); });
  if (from_scratch(options)) return;
  if (!options.vocab.empty())
    fail_input("--vocab ", options.vocab, ": ", options.model.model, " has its own vocabulary");
  if (options.data.data.empty())
    fail_input("--model ", options.model.model,
               ": a trained model needs --data; generated sentences are for random weights alone");
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
    if (!name.starts_with('.') && name != train::kMetrics && name != train::kAudit &&
        !name.starts_with(str(train::kMetrics, ".tmp.")) && name != "eval" &&
        !name.starts_with(train::kEventFile))
      fail_input("--output ", output.string(),
                 ": the folder is not empty; remove it, or name another");
  }
  fmt::print(stderr, "{}: a run that ended before its first checkpoint is started again\n",
             output.string());
}

}  // namespace

int apply_mesh(TrainOptions& options, int launched) {
  const std::string given = options.devices > 0 ? str("--devices ", options.devices, ' ') : "";
  options.devices = std::max(options.devices, 1);
  int ranks = launched > 1 ? launched : options.devices;
  if (!options.is_given("--mesh")) return ranks;
  train::MeshShape& mesh = options.arguments.mesh;
  const std::string& text = options.text_of("--mesh");
  Strategy& strategy = options.arguments.strategy;
  if (!options.is_given("--strategy")) strategy = Strategy::ddp;
  if (!train::traits(strategy).ranks) return ranks;  // refused later
  const std::int64_t least = std::int64_t{std::max(mesh.data, 1)} * mesh.pipe * mesh.tensor;
  if (least > 1024) fail_input("--mesh ", text, ": expected at most 1024 ranks");
  if (launched <= 1 && given.empty()) ranks = options.devices = static_cast<int>(least);
  return of_option(str(launched > 1 ? "" : given, "--mesh ", text),
                   [&] { return mesh.over(ranks); })
      .data;
}

void check(const TrainOptions& options, const comm::Environment& environment) {
  check_model(options);
  if (options.arguments.optim == train::OptimizerKind::sgd && options.arguments.learning_rate == 0)
    fail_input("--optimizer sgd: needs --lr; the rates by default are adamw's");
  check_evaluation(options);
  check_writable_folder("--output", options.arguments.output_dir);
  const Strategy strategy = options.arguments.strategy;
  const bool launched = environment.world_size > 1, alone = !train::traits(strategy).ranks;
  if (launched && options.devices > 1)
    fail_input("--devices ", options.devices, ": the launcher started the ranks already");
  if (strategy == Strategy::none && options.devices > 1)
    fail_input("--devices ", options.devices,
               ": needs a --strategy of several: ", train::kStrategies.list_from(Strategy::dp));
  if (options.transport == "nccl" && Device::parse(options.model.device).type == DeviceType::cpu)
    fail_input(
        "--transport nccl: is for tensors on GPUs; expected auto, shm or gloo with --device cpu");
  check_strategy_options(options);
  check_pipeline(options);
  for (const char* option : {"--mesh", "--transport", "--algorithm", "--timeout"})
    if (alone && options.is_given(option) && options.text_of(option) != "auto")
      fail_input(option, ' ', options.text_of(option),
                 ": needs a --strategy of several processes: ",
                 train::kStrategies.list_from(Strategy::ddp));
  if (options.arguments.redundancy > 0 && !environment.elastic())
    fail_input("--redundancy ", options.arguments.redundancy,
               ": needs `ringlet run --min-ranks`, which goes on without ranks that die");
  const int ranks = launched ? environment.world_size : alone ? 1 : options.devices;
  train::check_arguments(training_arguments(options, {}), ranks);
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

void check_batch(const TrainOptions& options, const TrainingData& data, int devices) {
  const int passes = options.arguments.gradient_accumulation_steps;
  const auto logical = static_cast<int>(options.arguments.logical_ranks);
  const char* const each = logical > 0 ? " logical ranks" : " devices";
  if (logical > 0) devices = logical;
  const std::size_t step =
      options.arguments.per_device_train_batch_size * static_cast<std::size_t>(devices * passes);
  const std::string several = str(devices > 1 ? str(" on each of ", devices, each) : "",
                                  passes > 1 ? str(", ", passes, " times a step,") : "");
  for (const Source& source : data.sources)
    if (const std::size_t rows = source.dataset->size(); rows < step)
      fail_input(source.dataset->name(), ": --batch ",
                 options.arguments.per_device_train_batch_size, several, " is more than its ", rows,
                 rows == 1 ? " row" : " rows");
}

}  // namespace ringlet::cli
