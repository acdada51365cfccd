// Trainer: the whole loop around a task, with evaluation, metrics and checkpoints.
//
//   Trainer trainer(loss, {snli}, model.tokenizer(), {.output_dir = "out", .num_train_epochs = 1});
//   trainer.add_evaluator([&](const EvaluationPoint& at) { return dev.evaluate(model, at); });
//   trainer.train();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/models/losses/loss.h"
#include "ringlet/train/checkpoint/snapshot.h"
#include "ringlet/train/data/loader.h"
#include "ringlet/train/evaluators/example_evaluator.h"
#include "ringlet/train/parallel/model/attached_strategy.h"
#include "ringlet/train/step/task.h"
#include "ringlet/train/step/trainer_callback.h"
#include "ringlet/train/step/trainer_state.h"
#include "ringlet/train/trainer_arguments.h"

namespace ringlet::train {

using EvaluateFunction = std::function<Metrics(const EvaluationPoint&)>;

/// A line for each epoch: its number, its training loss and the evaluation's figures, "eval_loss"
/// below "Validation Loss".
std::string epoch_table(const TrainingResult& result);

struct TrainingJob;

class Trainer {
 public:
  /// With a strategy over several ranks, every rank makes a separate trainer and all make the same
  /// calls on it. Rank 0 writes; all write checkpoints together, to a folder that all see.
  Trainer(std::unique_ptr<TrainingTask> task, TrainingArguments arguments, comm::Group group = {});
  ~Trainer();
  /// Sentences: trains `loss` and the modules in it; it must outlive the trainer.
  Trainer(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
          TrainingArguments arguments = {}, comm::Group group = {});
  /// Anything else: see Task.
  template <class Collate, class LossHook>
  Trainer(nn::Module& module, std::size_t examples, Collate collate, LossHook loss,
          TrainingArguments arguments = {}, comm::Group group = {})
      : Trainer(std::make_unique<Task<std::invoke_result_t<Collate, const Rows&>>>(
                    module, examples, std::move(collate), std::move(loss),
                    LoaderOptions{.batch_size = arguments.per_device_train_batch_size,
                                  .accumulation = arguments.gradient_accumulation_steps,
                                  .seed = arguments.seed,
                                  .shuffle = arguments.shuffle,
                                  .rank = static_cast<std::size_t>(group.rank()),
                                  .world_size = static_cast<std::size_t>(group.size()),
                                  .logical_ranks = arguments.logical_ranks,
                                  .equal_batches = traits(arguments.strategy).parameters}),
                arguments, group) {}

  /// `figures` are the names of its metrics: a metric_for_best_model that no evaluator has is then
  /// refused before the first step, otherwise after the first evaluation.
  void add_evaluator(EvaluateFunction evaluate, std::vector<std::string> figures = {});
  /// Each evaluation adds the mean loss of each: "eval_loss", or "eval_NAME_loss" of several. They
  /// have the losses of the training data sets in order, or of those that `like` has the indices
  /// of. For sentences, under every strategy.
  void add_eval_datasets(const Datasets& datasets, std::vector<std::size_t> like = {});
  /// The same for examples, by the trainer's loss hook: "eval_loss".
  template <class Collate>
  void add_eval_dataset(std::size_t examples, Collate collate) {
    using Batch = std::invoke_result_t<Collate, const Rows&>;
    const auto* task = dynamic_cast<const Task<Batch>*>(&this->task());
    RINGLET_CHECK(task, "[trainer] evaluation batches: expected those of the trained examples");
    const auto measure = [task](const Batch& batch) {
      return Metrics{{"eval_loss", task->loss(batch).tensor().template item<double>()}};
    };
    add_evaluator(ExampleEvaluator<Batch>(task->module(), examples, std::move(collate), measure,
                                          eval_batch_size()),
                  {"eval_loss"});
  }
  /// See trainer_callback.h for the events and their order.
  void add_callback(TrainerCallback callback);

  /// Runs to the end, or until a callback or an evaluator calls stop(). Afterwards the thread's
  /// generator is as before. Wrong input is InputError before the first step; a later Error ends
  /// with its place, "(rank 1, training step 7)".
  TrainingResult train();
  /// This rank's state, for a trainer of the next world. Known after the end of a peer, before a
  /// rank joins, and at the end of a job that may lose ranks. Nothing where ranks hold shards
  /// without redundancy.
  std::optional<Snapshot> take_snapshot();
  /// train() goes on from there; the module has the parameters, unless the snapshot has shards.
  void set_snapshot(std::optional<Snapshot> snapshot);
  /// Ends the run after the current step (in on_step_end on a GPU: after the step that follows the
  /// reported one). With `save` it leaves a checkpoint there, which needs an output folder. A call
  /// on one rank ends the run on all.
  void stop(bool save = false);

  /// The lines that Hugging Face's Trainer begins with: "***** Running training *****", examples,
  /// epochs, batch sizes, steps and parameters.
  std::string header() const;
  std::int64_t total_steps() const;
  const TrainingTask& task() const;

 private:
  std::size_t eval_batch_size() const;
  void slice_layers(const comm::Group& group) const;

  std::unique_ptr<TrainingJob> job_;
  AttachedStrategy strategy_;
  std::shared_ptr<void> same_rows_;  // checks them under tensor parallelism
};

struct EarlyStoppingOptions {
  std::int64_t patience = 1;  // evaluations in succession that are not better
  double threshold = 0;       // the metric must be better by more than this
};

/// Ends a run when its evaluations no longer get better.
///
///   trainer.add_callback(early_stopping(trainer, {.patience = 3}));
///
/// Compares metric_for_best_model; load_best_model_at_end alone compares "loss". The count of
/// evaluations is part of checkpoints. train() throws InputError if the arguments have no
/// evaluations or no metric. `trainer` must stay where it is while it has the callback.
TrainerCallback early_stopping(Trainer& trainer, EarlyStoppingOptions options = {});

}  // namespace ringlet::train
