#include "ringlet/train/trainer.h"

#include <algorithm>
#include <cmath>

#include "ringlet/core/base/setting.h"
#include "ringlet/models/transformer.h"
#include "ringlet/train/argument_table.h"
#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/parallel/model/encoder_tensor_plan.h"
#include "ringlet/train/sentence_task.h"
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
    : job_{std::move(task), std::move(arguments), std::move(group)} {
  const TrainingArguments& given = job_.arguments;
  check_arguments(given, job_.group);
  nn::Module& module = job_.task->module();
  set_transformers(module, given.dtype, given.gradient_checkpointing);
  job_.total_steps =
      given.max_steps > 0 ? given.max_steps : steps_of_epochs(*job_.task, given.num_train_epochs);
  const Mesh& mesh = job_.mesh = make_mesh(job_.group, given.mesh);
  auto* const sentences = dynamic_cast<SentenceTask*>(job_.task.get());
  if (!sentences) check_has_use(given, *job_.task);
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
  if (pipeline) options.units = pipeline->stage_units();
  const int shards = options.shard_size > 0 ? options.shard_size : mesh.data.size();
  check_memory_limit(given.strategy, local, shards, moments_of(given), options.units);
  strategy_ =
      AttachedStrategy(given.strategy, local, mesh.data, given.devices, given.dtype, options);
  job_.task->set_pause(strategy_.paused());
  if (sentences) sentences->set_same_rows(mesh.same_rows, job_.group.rank());
  if (!pipeline) return;
  job_.arguments.pipeline.layers = pipeline->layers();
  pipeline->start(strategy_);
  sentences->use_pipeline(std::move(pipeline));
}

void Trainer::slice_layers(const comm::Group& group) const {
  nn::Module& module = job_.task->module();
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
                 {.sequence = job_.arguments.tensor_sequence});
}

Trainer::Trainer(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
                 TrainingArguments arguments, comm::Group group)
    : Trainer(std::make_unique<SentenceTask>(loss, std::move(datasets), tokenizer,
                                             loader_options(arguments, group)),
              arguments, group) {}

void Trainer::add_eval_datasets(const Datasets& datasets, std::vector<std::size_t> like) {
  const auto* task = dynamic_cast<SentenceTask*>(job_.task.get());
  RINGLET_CHECK(task, "[trainer] evaluation data sets of text are for sentences");
  RINGLET_CHECK(like.empty() || like.size() == datasets.size(), "[trainer] ", datasets.size(),
                " evaluation data sets, and the losses of ", like.size());
  const std::vector<std::string> names = short_names(datasets);
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const std::string figure = names.size() == 1 ? "eval_loss" : str("eval_", names[i], "_loss");
    add_evaluator(task->loss_evaluator(datasets[i], like.empty() ? i : like[i], figure,
                                       job_.arguments.per_device_eval_batch_size),
                  {figure});
  }
}

void Trainer::stop(bool save) {
  RINGLET_CHECK(!save || !job_.arguments.output_dir.empty(),
                "[trainer] there is no output folder for a checkpoint");
  job_.stopped = true;
  job_.save_at_stop = job_.save_at_stop || save;
}

TrainingResult Trainer::train() {
  job_.stopped = job_.save_at_stop = false;
  return TrainingRun(job_)();
}

}  // namespace ringlet::train
