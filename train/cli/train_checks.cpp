#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ringlet/core/io/file.h"
#include "ringlet/models/folder.h"
#include "ringlet/train/argument_table.h"
#include "ringlet/train/checkpoint/audit.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/cli/train_options.h"
#include "ringlet/train/report/event_file.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;
using train::EvalStrategy;
using train::SaveStrategy;
using train::Strategy;

/// An option of one strategy is refused with any other.
void check_strategy_options(const TrainOptions& options) {
  each_argument(options.arguments, [&](const train::ArgumentRow& row, const auto&...) {
    const Strategy owner = row.traits & train::kDdp ? Strategy::ddp : Strategy::fsdp;
    if ((row.traits & (train::kDdp | train::kFsdp)) && options.is_given(row.option) &&
        options.arguments.strategy != owner)
      fail_input(row.option, " ", options.given.at(row.option), ": needs --strategy ",
                 train::kStrategies(owner));
  });
}

/// An option about evaluations without effect is refused.
void check_evaluation(const TrainOptions& options) {
  const train::TrainingArguments& a = options.arguments;
  const auto check_interval = [&](const char* steps, std::int64_t interval, const char* strategy) {
    if (interval > 0 && options.is_given(strategy) && options.given.at(strategy) != "steps")
      fail_input(steps, ' ', interval, ": needs ", strategy, " steps, found ",
                 options.given.at(strategy));
  };
  check_interval("--eval-steps", a.eval_steps, "--eval-strategy");
  check_interval("--save-steps", a.save_steps, "--save-strategy");
  if (a.save_strategy == SaveStrategy::steps && a.save_steps == 0)
    fail_input("--save-strategy steps: needs --save-steps");
  const bool compares = train::compares_evaluations(a);
  for (const char* option : {"--early-stopping-patience", "--greater-is-better"})
    if (options.is_given(option) && !compares)
      fail_input(option, ": needs --metric-for-best-model or --load-best-model-at-end");
  if (compares && a.eval_strategy == EvalStrategy::no)
    fail_input("--eval-strategy no: the best evaluation needs steps or epoch");
  if (options.early_stopping.threshold > 0 && options.early_stopping.patience == 0)
    fail_input("--early-stopping-threshold ", options.early_stopping.threshold,
               ": needs --early-stopping-patience");
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

void check(const TrainOptions& options) {
  of_option("--model", [&] { models::check_model_name(options.model.model); });
  use_device(options.model);
  if (from_scratch(options)) {
    models::EncoderConfig::named(options.model.model);
  } else if (!options.vocab.empty()) {
    fail_input("--vocab ", options.vocab, ": ", options.model.model, " has its own vocabulary");
  } else if (options.data.data.empty()) {
    fail_input("--model ", options.model.model,
               ": a trained model needs --data; generated sentences are for random weights alone");
  }
  if (options.arguments.optim == train::OptimizerKind::sgd && options.arguments.learning_rate == 0)
    fail_input("--optimizer sgd: needs --lr; the rates by default are adamw's");
  check_evaluation(options);
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
  if (!options.is_given("--mesh")) return ranks;
  train::MeshShape& mesh = options.arguments.mesh;
  const std::string& text = options.given.at("--mesh");
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

void check_devices(const TrainOptions& options, bool launched) {
  const Strategy strategy = options.arguments.strategy;
  const std::string of_processes = train::kStrategies.list_from(Strategy::ddp);
  if (launched && options.devices > 1)
    fail_input("--devices ", options.devices, ": the launcher started the ranks already");
  const bool alone = !train::traits(strategy).ranks;
  if (launched && alone)
    fail_input("--strategy ", train::kStrategies(strategy),
               ": this is one of several ranks; expected ", of_processes);
  if (strategy == Strategy::none && options.devices > 1)
    fail_input("--devices ", options.devices,
               ": needs a --strategy of several: ", train::kStrategies.list_from(Strategy::dp));
  if (options.transport == "nccl" && existing_device(options.model.device).type == DeviceType::cpu)
    fail_input(
        "--transport nccl: is for tensors on GPUs; expected auto, shm or gloo with --device cpu");
  check_strategy_options(options);
  const train::PipelineOptions& pipeline = options.arguments.pipeline;
  const bool staged = options.arguments.mesh.pipe > 1;
  if (options.is_given("--mesh") && alone)
    fail_input("--mesh ", options.given.at("--mesh"),
               ": needs a --strategy of several processes: ", of_processes);
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
