// Trainer: the whole loop around a task, with evaluation, metrics and checkpoints.
//
//   Trainer trainer(loss, {snli}, model.tokenizer(), {.output = "out", .epochs = 1});
//   trainer.add_evaluator([&](const EvaluationPoint& at) { return dev.evaluate(model, at); });
//   trainer.train();
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/models/losses/loss.h"
#include "ringlet/train/example_task.h"
#include "ringlet/train/loader.h"
#include "ringlet/train/metrics.h"
#include "ringlet/train/optimizer.h"
#include "ringlet/train/parallel/attached_strategy.h"
#include "ringlet/train/schedule.h"
#include "ringlet/train/step_graphs.h"
#include "ringlet/train/task.h"

namespace ringlet::train {

struct TrainingArguments {
  /// Where metrics.jsonl and checkpoints go, and the evaluators' tables below "eval"; made if it is
  /// missing; empty writes nothing.
  std::filesystem::path output = {};
  std::size_t epochs = 1;
  std::int64_t max_steps = 0;  // more than 0: instead of epochs

  std::size_t batch_size = 32;  // rows per device and forward
  std::size_t gradient_accumulation = 1;
  double lr = 5e-5;
  Decay schedule = Decay::linear;
  double warmup_ratio = 0;
  std::int64_t warmup_steps = 0;  // more than 0: instead of the ratio
  OptimizerKind optimizer = OptimizerKind::adamw;
  double weight_decay = 0;
  double beta1 = 0.9;  // AdamW's, as beta2 and eps
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0;       // SGD's
  double max_grad_norm = 1;  // 0: no clipping
  /// f32, or bf16 for the activations of every Transformer in the task.
  DType dtype = DType::f32;
  std::uint64_t seed = 42;
  /// Of sentence tasks on one GPU: whether a whole step is captured with the first batch of each
  /// shape, and replayed. Batches are filled up to such shapes either way: the bits are the same.
  StepGraphMode step_graphs = StepGraphMode::automatic;

  /// How several devices train together. dp takes `devices`, the others the trainer's group; a
  /// global batch is batch_size * gradient_accumulation rows for each of them.
  Strategy strategy = Strategy::none;
  std::vector<Device> devices = {};
  StrategyOptions strategy_options = {};

  std::int64_t logging_steps =
      10;                       // a line of metrics every so many steps and at the last; 0: none
  std::int64_t eval_steps = 0;  // 0: only after each epoch
  bool eval_each_epoch = true;
  std::int64_t save_steps = 0;       // a checkpoint every so many steps, and at the end; 0: none
  std::size_t save_total_limit = 0;  // keep the latest so many; 0: all
  /// A checkpoint, or a folder of checkpoints of which the latest counts.
  std::filesystem::path resume_from = {};

  // Sentence tasks only.
  Dealing dealing = Dealing::proportional;
  bool shuffle = true;  // false: the rows of each data set in their order
  bool no_duplicates = false;
  std::int64_t max_length = 0;  // tokens; 0: the tokenizer's own limit
  bool padded = false;
};

using EvaluateFunction = std::function<Metrics(const EvaluationPoint&)>;

/// Of all ranks together, the same on each.
struct StepReport {
  std::int64_t step = 0;  // done, counted from 1
  std::int64_t total_steps = 0;
  double epoch = 0;
  StepResult result;
  double lr = 0;
  double grad_norm = 0;  // before clipping
};

/// What a program may show; the library itself prints nothing. Empty ones are skipped.
struct TrainerCallbacks {
  /// On a GPU, between evaluations and checkpoints, each step is told of while the next one is
  /// under way.
  std::function<void(const StepReport&)> on_step = {};
  std::function<void(const EvaluationPoint&, const Metrics&)> on_evaluate = {};
  std::function<void(const std::filesystem::path& checkpoint)> on_save = {};
  /// A line on what the run does otherwise than it was asked to.
  std::function<void(const std::string&)> on_note = {};
};

struct TrainingResult {
  std::int64_t steps = 0;   // done in all, also before resuming
  double loss = 0;          // mean over all these steps
  Metrics dataset_losses;   // where there are several data sets, the mean over each one's steps
  double seconds = 0;       // of training, without evaluating and saving
  double data_seconds = 0;  // of these, before steps had their batches
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t lone_rows = 0;       // StepResult's, of all these steps
  std::int64_t replayed_steps = 0;  // that were a graph's
  /// One row per finished epoch: its mean loss and what the evaluation behind it found.
  struct Epoch {
    std::size_t epoch;  // counted from 1
    double loss;
    Metrics metrics;
  };
  std::vector<Epoch> epochs;
};

class Trainer {
 public:
  /// With a strategy over several ranks, every rank makes a trainer of its own and all call the
  /// same on it; rank 0 writes, checkpoints all of them together, to a folder that all see.
  Trainer(std::unique_ptr<TrainingTask> task, TrainingArguments arguments, comm::Group group = {});
  /// Sentences: `loss` and what it holds is trained, and must outlive the trainer.
  Trainer(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
          TrainingArguments arguments = {}, comm::Group group = {});
  /// Anything else: see ExampleTask.
  template <class Collate, class LossHook>
  Trainer(nn::Module& module, std::size_t examples, Collate collate, LossHook loss,
          TrainingArguments arguments = {}, comm::Group group = {})
      : Trainer(std::make_unique<ExampleTask<std::invoke_result_t<Collate, const Rows&>>>(
                    module, examples, std::move(collate), std::move(loss),
                    ExampleOptions{arguments.batch_size, arguments.gradient_accumulation,
                                   arguments.seed, /*shuffle=*/true,
                                   static_cast<std::size_t>(group.rank()),
                                   static_cast<std::size_t>(group.size())}),
                arguments, group) {}

  void add_evaluator(EvaluateFunction evaluate) { evaluators_.push_back(std::move(evaluate)); }
  void set_callbacks(TrainerCallbacks callbacks) { callbacks_ = std::move(callbacks); }

  /// Runs to the end, or until stop() was called from a callback or an evaluator. The thread's
  /// generator is as it was afterwards. Whatever input is wrong is InputError before the first
  /// step; an Error later ends with its place, "(rank 1, training step 7)".
  TrainingResult train();
  /// Ends the run behind the step that is under way (on_step on a GPU: the one after that it tells
  /// of); with `save` it leaves a checkpoint there, for which there must be an output folder.
  /// Called on one rank it ends the run on all.
  void stop(bool save = false);

  std::int64_t total_steps() const { return total_steps_; }

 private:
  class Run;

  std::unique_ptr<TrainingTask> task_;
  TrainingArguments arguments_;
  comm::Group group_;
  AttachedStrategy strategy_;
  TrainerCallbacks callbacks_;
  std::vector<EvaluateFunction> evaluators_;
  std::int64_t total_steps_ = 0;
  bool stopped_ = false;
  bool save_at_stop_ = false;
};

}  // namespace ringlet::train
