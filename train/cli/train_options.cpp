#include "ringlet/train/cli/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ringlet/models/folder.h"
#include "ringlet/train/argument_table.h"
#include "ringlet/train/step/timeline_callback.h"

namespace ringlet::cli {
namespace {

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
  command.add("--columns", data.columns,
              "Renames, in the files that have the column: NAME_IN_FILE=NAME,...");
  command.add("--num-labels", data.num_labels, Range{2, 1 << 20},
              fmt::format("Refuse labels from this number on; needed for more than {} classes",
                          kMaxGuessedLabels));
  add_per_file_options(command, data.per_file);
  add_loss_options(command, data.losses);
  command.add("--teacher", data.teacher,
              "mse: the folder of a model; a row's embeddings should be that of its first "
              "text there");
}

/// An option for each argument that has one, by the field's type.
struct AddArgument {
  Command& command;

  template <class T, class... Limits>
  auto add(const char* name, T& field, const Limits&... more) const
      -> decltype(command.add(name, field, more...)) {
    return command.add(name, field, more...);
  }
  template <class T, class... Limits>
  Option& add(const char* name, std::vector<T>& fields, const Limits&... more) const {
    return command.add_list(name, fields, more...);
  }
  Option& add(const char* name, std::optional<bool>& field, const char* help) const {
    return command.add(name, field, parse_bool, help);
  }
  Option& add(const char* name, bool& field, const char* help) const {
    const bool flag = !field || std::string_view(name).starts_with("--no-");
    return flag ? command.add(name, field, help) : command.add(name, field, parse_bool, help);
  }
  template <class T, class... Limits>
  void operator()(const train::ArgumentRow& row, T& field, const Limits&... limits) const {
    if constexpr (requires { add(row.option, field, limits..., row.help); }) {
      if (*row.option) add(row.option, field, limits..., row.help).setting = row.name;
    } else {
      RINGLET_CHECK(!*row.option, "[options] ", row.option, " is of a type that no option has");
    }
  }
};

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
  command.add("--algorithm", options.algorithm, OneOf{{"auto", "direct", "ring"}},
              "Their collectives: direct (or auto) adds by a fixed tree, ring to the neighbour");
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
  each_argument(options.arguments, AddArgument{command});
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
       .timed = recorded && existing_device(options.model.device).type != DeviceType::cpu,
       .observer = recorded ? &train::Timeline::of_collectives() : nullptr,
       .on_note = [](const std::string& line) { fmt::print(stderr, "{}\n", line); }},
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
  if (arguments.save_steps == 0) arguments.save_steps = train::TrainingArguments{}.save_steps;
  arguments.dtype = parse_dtype(options.model.dtype);
  arguments.strategy_options.on_note = group_options(options).on_note;
  if (options.resume) arguments.resume_from_checkpoint = arguments.output_dir;
  if (!options.is_given("--batch-sampler")) arguments.batch_sampler = sampler_of(data);
  return arguments;
}

}  // namespace ringlet::cli
