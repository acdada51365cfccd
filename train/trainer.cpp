#include "ringlet/train/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "ringlet/comm/environment.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/models/transformer.h"
#include "ringlet/nn/slices.h"
#include "ringlet/train/argument_table.h"
#include "ringlet/train/checkpoint/snapshot.h"
#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/parallel/model/same_rows.h"
#include "ringlet/train/parallel/model/sentence_pipeline.h"
#include "ringlet/train/parallel/model/tensor_parallel.h"
#include "ringlet/train/step/sentence_task.h"
#include "ringlet/train/training_run.h"

namespace ringlet::train {

namespace {

/// A part of an epoch has its share of the steps, rounded up.
std::int64_t steps_of_epochs(const TrainingTask& task, double epochs) {
  std::int64_t steps = 0;
  for (std::size_t epoch = 0; static_cast<double>(epoch) < epochs; ++epoch) {
    const double share = std::min(1.0, epochs - static_cast<double>(epoch));
    steps += static_cast<std::int64_t>(
        std::ceil(share * static_cast<double>(task.steps_per_epoch(epoch))));
  }
  return steps;
}

}  // namespace

Trainer::Trainer(std::unique_ptr<TrainingTask> task, TrainingArguments arguments, comm::Group group)
    : job_(new TrainingJob{std::move(group), std::move(task), std::move(arguments)}) {
  const TrainingArguments& given = job_->arguments;
  check_arguments(given, job_->group.size());
  nn::Module& module = job_->task->module();
  set_transformers(module, given.dtype, given.gradient_checkpointing);
  job_->total_steps =
      given.max_steps > 0 ? given.max_steps : steps_of_epochs(*job_->task, given.num_train_epochs);
  const Mesh& mesh = job_->mesh = make_mesh(job_->group, given.mesh);
  auto* const sentences = dynamic_cast<SentenceTask*>(job_->task.get());
  if (!sentences) check_has_use(given, *job_->task);
  if (mesh.same_rows.size() > 1 && !sentences)
    fail_setting("mesh", ": the axes pipe and tensor are for sentence encoders");
  if (mesh.tensor.size() > 1) slice_layers(mesh.tensor);
  std::shared_ptr<SentencePipeline> pipeline;
  if (mesh.pipe.size() > 1)
    pipeline = std::make_shared<SentencePipeline>(
        dynamic_cast<models::Loss&>(module), sentences->dataset_names().size(),
        static_cast<int>(given.gradient_accumulation_steps), given.pipeline, mesh, given.dtype,
        given.strategy_options.units);
  nn::Module& local = pipeline ? pipeline->stage() : module;
  StrategyOptions options = given.strategy_options;
  options.logical_ranks = static_cast<int>(given.logical_ranks);
  if (pipeline) options.units = pipeline->stage_units();
  const int shards = options.shard_size > 0 ? options.shard_size : mesh.data.size();
  const int moments = moments_of(given);
  check_memory_limit(given.strategy, local, shards,
                     moments + given.redundancy * moments_of_copies(moments), options.units);
  strategy_ =
      AttachedStrategy(given.strategy, local, mesh.data, given.devices, given.dtype, options);
  if (!pipeline) {
    if (mesh.same_rows.size() > 1)
      same_rows_ = std::make_shared<RowsCheck>(dynamic_cast<models::Loss&>(module), mesh.same_rows,
                                               job_->group.rank());
    return;
  }
  job_->arguments.pipeline.layers = pipeline->layers();
  pipeline->start(strategy_);
  sentences->use_pipeline(std::move(pipeline));
}

Trainer::~Trainer() = default;

std::int64_t Trainer::total_steps() const { return job_->total_steps; }

const TrainingTask& Trainer::task() const { return *job_->task; }

std::size_t Trainer::eval_batch_size() const { return job_->arguments.per_device_eval_batch_size; }

void Trainer::add_evaluator(EvaluateFunction evaluate, std::vector<std::string> figures) {
  job_->evaluators.push_back({std::move(evaluate), std::move(figures)});
}

void Trainer::add_callback(TrainerCallback callback) {
  job_->callbacks.push_back(std::move(callback));
}

void Trainer::slice_layers(const comm::Group& group) const {
  nn::Module& module = job_->task->module();
  const models::Transformer* found = nullptr;
  module.visit([&](const std::string&, nn::Module& below) {
    if (!found) found = dynamic_cast<const models::Transformer*>(&below);
  });
  if (!found)
    fail_setting("mesh", " tensor=", group.size(), ": expected a transformer, found none");
  if (const std::int64_t heads = found->config().num_attention_heads; heads % group.size() != 0)
    fail_setting("mesh", " tensor=", group.size(), ": expected a divisor of the model's ", heads,
                 " heads");
  TensorParallel(module, group, encoder_tensor_plan(found->config()),
                 {.sequence = job_->arguments.tensor_sequence});
}

namespace {

/// Errors name the field of TrainingArguments, not that of LoaderOptions.
std::unique_ptr<SentenceTask> make_task(models::Loss& loss, Datasets datasets,
                                        const models::Tokenizer& tokenizer,
                                        const TrainingArguments& arguments,
                                        const comm::Group& group) {
  check_arguments(arguments, group.size());
  try {
    return std::make_unique<SentenceTask>(loss, std::move(datasets), tokenizer,
                                          loader_options(arguments, group));
  } catch (const SettingError& error) {
    if (error.setting != "batch_size") throw;
    fail_setting("per_device_train_batch_size", error.what() + error.setting.size());
  }
}

}  // namespace

Trainer::Trainer(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
                 TrainingArguments arguments, comm::Group group)
    : Trainer(make_task(loss, std::move(datasets), tokenizer, arguments, group), arguments, group) {
}

void Trainer::add_eval_datasets(const Datasets& datasets, std::vector<std::size_t> like) {
  const auto* task = dynamic_cast<SentenceTask*>(job_->task.get());
  RINGLET_CHECK(task, "[trainer] evaluation data sets of text are for sentences");
  RINGLET_CHECK(like.empty() || like.size() == datasets.size(), "[trainer] ", datasets.size(),
                " evaluation data sets, and the losses of ", like.size());
  const std::vector<std::string> names = short_names(datasets);
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const std::string figure = names.size() == 1 ? "eval_loss" : str("eval_", names[i], "_loss");
    add_evaluator(task->loss_evaluator(datasets[i], like.empty() ? i : like[i], figure,
                                       job_->arguments.per_device_eval_batch_size),
                  {figure});
  }
}

void Trainer::stop(bool save) {
  RINGLET_CHECK(!save || !job_->arguments.output_dir.empty(),
                "[trainer] there is no output folder for a checkpoint");
  job_->stopped = true;
  job_->save_at_stop = job_->save_at_stop || save;
}

TrainingResult Trainer::train() {
  job_->stopped = job_->save_at_stop = false;
  job_->left.reset();
  TrainingRun run(*job_);
  try {
    return run();
  } catch (const comm::WorldGrows&) {
    job_->left = run.snapshot();
    throw;
  } catch (const Error&) {
    const comm::Group& group = job_->group;
    if (!job_->left && group.size() > 1 && group.store().raised()) {
      try {
        job_->left = run.snapshot();
      } catch (const std::exception&) {  // the peer's end is the cause; others may have a snapshot
      }
    }
    throw;
  }
}

std::optional<Snapshot> Trainer::take_snapshot() {
  return std::exchange(job_->left ? job_->left : job_->snapshot, {});
}
void Trainer::set_snapshot(std::optional<Snapshot> snapshot) {
  job_->snapshot = std::move(snapshot);
}

// ---- the lines before and after a run ----

namespace {

std::int64_t trainable_parameters(const nn::Module& module) {
  std::int64_t count = 0;
  for (const nn::Parameter& parameter : module.parameters())
    if (parameter.requires_grad()) count += nn::whole_shape(parameter).numel();
  return count;
}

/// Epochs that the steps begin.
std::int64_t epochs_of(const TrainingTask& task, std::int64_t steps) {
  std::int64_t epochs = 0;
  for (; steps > 0; ++epochs)
    steps -= static_cast<std::int64_t>(task.steps_per_epoch(static_cast<std::size_t>(epochs)));
  return epochs;
}

/// "Validation Loss" of "eval_loss", "Accuracy" of "eval_accuracy".
std::string heading(std::string name) {
  if (name == "eval_loss") return "Validation Loss";
  if (name.starts_with("eval_")) name.erase(0, 5);
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

}  // namespace

std::string Trainer::header() const {
  const TrainingArguments& given = job_->arguments;
  const std::size_t devices = given.logical_ranks > 0 ? given.logical_ranks
                              : given.strategy == Strategy::dp
                                  ? given.devices.size()
                                  : static_cast<std::size_t>(job_->mesh.data.size());
  std::size_t examples = 0;
  for (const EpochRows& rows : job_->task->epoch_rows(0)) examples += rows.all;
  const std::size_t batch = given.per_device_train_batch_size,
                    accumulation = given.gradient_accumulation_steps;
  std::string text = "***** Running training *****\n";
  const auto line = [&](const char* name, const auto& value) {
    text += fmt::format("  {} = {}\n", name, value);
  };
  line("Num examples", fmt::group_digits(examples));
  line("Num Epochs", fmt::group_digits(epochs_of(*job_->task, job_->total_steps)));
  line("Instantaneous batch size per device", fmt::group_digits(batch));
  if (given.logical_ranks > 0)
    line("Logical ranks, each with that batch", fmt::group_digits(given.logical_ranks));
  line("Total train batch size (w. parallel, distributed & accumulation)",
       fmt::group_digits(batch * accumulation * devices));
  line("Gradient Accumulation steps", fmt::group_digits(accumulation));
  line("Total optimization steps", fmt::group_digits(job_->total_steps));
  line("Number of trainable parameters",
       fmt::group_digits(trainable_parameters(job_->task->module())));
  const Mesh& mesh = job_->mesh;
  if (mesh.same_rows.size() == 1) return text;
  line("Ranks along data, pipe and tensor",
       fmt::format("{} x {} x {}", mesh.data.size(), mesh.pipe.size(), mesh.tensor.size()));
  if (mesh.tensor.size() > 1) line("Sequence parallelism", given.tensor_sequence ? "yes" : "no");
  const PipelineOptions& pipeline = given.pipeline;
  if (mesh.pipe.size() == 1) return text;
  line("Layers of each pipeline stage", fmt::format("{}", fmt::join(pipeline.layers, " + ")));
  line("Pipeline schedule", str(kPipelines(pipeline.schedule)));
  return text;
}

std::string epoch_table(const TrainingResult& result) {
  std::string text;
  for (const TrainingResult::Epoch& epoch : result.epochs) {
    std::string first = "Epoch  Training Loss", line;
    line = fmt::format("{:<5}  {:<13.6f}", epoch.epoch, epoch.loss);
    for (const auto& [name, value] : epoch.metrics) {
      const std::string column = heading(name);
      first += "  " + column;
      line += fmt::format("  {:<{}.6f}", value, column.size());
    }
    text += text.empty() ? first + '\n' + line + '\n' : line + '\n';
  }
  return text;
}

// ---- early stopping ----

namespace {

constexpr const char* kCounter = "early_stopping_patience_counter";
}  // namespace

TrainerCallback early_stopping(Trainer& trainer, EarlyStoppingOptions options) {
  if (options.patience < 1)
    fail_setting("early_stopping_patience", ": expected at least 1, found ", options.patience);
  if (!(options.threshold >= 0))
    fail_setting("early_stopping_threshold", ": expected 0 or more, found ", options.threshold);
  const auto failed = std::make_shared<std::int64_t>(0);
  TrainerCallback callback;
  callback.on_train_begin = [](const TrainingArguments& arguments) {
    if (!compares_evaluations(arguments))
      fail_input("early stopping: expected metric_for_best_model or load_best_model_at_end");
  };
  callback.on_evaluate = [=, &trainer](const EvaluationReport& report) {
    *failed = report.improvement > options.threshold ? 0 : *failed + 1;
    if (*failed >= options.patience) trainer.stop();
  };
  callback.state = [=] { return CallbackState{{kCounter, *failed}}; };
  callback.load_state = [=, &trainer](const CallbackState& state) {
    const auto found = state.find(kCounter);
    *failed = found == state.end() ? 0 : found->second;
    if (*failed >= options.patience) trainer.stop();
  };
  return callback;
}

}  // namespace ringlet::train
