// Trainer: the whole loop around a task, with evaluation, metrics and checkpoints.
//
//   Trainer trainer(loss, {snli}, model.tokenizer(), {.output_dir = "out", .num_train_epochs = 1});
//   trainer.add_evaluator([&](const EvaluationPoint& at) { return dev.evaluate(model, at); });
//   trainer.train();
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/models/losses/loss.h"
#include "ringlet/train/data/loader.h"
#include "ringlet/train/evaluators/example_evaluator.h"
#include "ringlet/train/example_task.h"
#include "ringlet/train/parallel/model/attached_strategy.h"
#include "ringlet/train/training_job.h"

namespace ringlet::train {

class Trainer {
 public:
  /// With a strategy over several ranks, every rank makes a separate trainer and all make the same
  /// calls on it. Rank 0 writes; all write checkpoints together, to a folder that all see.
  Trainer(std::unique_ptr<TrainingTask> task, TrainingArguments arguments, comm::Group group = {});
  /// Sentences: trains `loss` and the modules in it; it must outlive the trainer.
  Trainer(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
          TrainingArguments arguments = {}, comm::Group group = {});
  /// Anything else: see ExampleTask.
  template <class Collate, class LossHook>
  Trainer(nn::Module& module, std::size_t examples, Collate collate, LossHook loss,
          TrainingArguments arguments = {}, comm::Group group = {})
      : Trainer(std::make_unique<ExampleTask<std::invoke_result_t<Collate, const Rows&>>>(
                    module, examples, std::move(collate), std::move(loss),
                    ExampleOptions{arguments.per_device_train_batch_size,
                                   arguments.gradient_accumulation_steps, arguments.seed,
                                   arguments.shuffle, static_cast<std::size_t>(group.rank()),
                                   static_cast<std::size_t>(group.size())}),
                arguments, group) {}

  /// `figures` are the names of its metrics: a metric_for_best_model that no evaluator has is then
  /// refused before the first step, otherwise after the first evaluation.
  void add_evaluator(EvaluateFunction evaluate, std::vector<std::string> figures = {}) {
    job_.evaluators.push_back({std::move(evaluate), std::move(figures)});
  }
  /// Each evaluation adds the mean loss of each: "eval_loss", or "eval_NAME_loss" of several. They
  /// have the losses of the training data sets in order, or of those that `like` has the indices
  /// of. For sentences, under every strategy.
  void add_eval_datasets(const Datasets& datasets, std::vector<std::size_t> like = {});
  /// The same for examples, by the trainer's loss hook: "eval_loss".
  template <class Collate>
  void add_eval_dataset(std::size_t examples, Collate collate) {
    using Batch = std::invoke_result_t<Collate, const Rows&>;
    const auto* task = dynamic_cast<ExampleTask<Batch>*>(job_.task.get());
    RINGLET_CHECK(task, "[trainer] evaluation batches: expected those of the trained examples");
    const auto measure = [task](const Batch& batch) {
      return Metrics{{"eval_loss", task->loss(batch).tensor().template item<double>()}};
    };
    add_evaluator(ExampleEvaluator<Batch>(job_.task->module(), examples, std::move(collate),
                                          measure, job_.arguments.per_device_eval_batch_size),
                  {"eval_loss"});
  }
  /// See trainer_callback.h for the events and their order.
  void add_callback(TrainerCallback callback) { job_.callbacks.push_back(std::move(callback)); }

  /// Runs to the end, or until a callback or an evaluator calls stop(). Afterwards the thread's
  /// generator is as before. Wrong input is InputError before the first step; a later Error ends
  /// with its place, "(rank 1, training step 7)".
  TrainingResult train();
  /// Ends the run after the current step (in on_step_end on a GPU: after the step that follows the
  /// reported one). With `save` it leaves a checkpoint there, which needs an output folder. A call
  /// on one rank ends the run on all.
  void stop(bool save = false);

  /// The lines that Hugging Face's Trainer begins with: "***** Running training *****", examples,
  /// epochs, batch sizes, steps and parameters.
  std::string header() const;
  std::int64_t total_steps() const { return job_.total_steps; }
  const TrainingTask& task() const { return *job_.task; }

 private:
  void slice_layers(const comm::Group& group) const;

  TrainingJob job_;
  AttachedStrategy strategy_;
};

}  // namespace ringlet::train
