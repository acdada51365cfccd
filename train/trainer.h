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
  /// The folder of metrics.jsonl and checkpoints, and of the evaluators' tables below "eval";
  /// created if it is missing. Empty: nothing is written.
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
  double beta1 = 0.9;  // AdamW's, like beta2 and eps
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0;       // SGD's
  double max_grad_norm = 1;  // 0: no clipping
  /// f32, or bf16 for the activations of every Transformer in the task.
  DType dtype = DType::f32;
  std::uint64_t seed = 42;
  /// For sentence tasks on one GPU: whether a whole step is captured with the first batch of each
  /// shape, and then replayed. Both modes fill batches up to such shapes: the bits are the same.
  StepGraphMode step_graphs = StepGraphMode::automatic;

  /// How several devices train together. dp uses `devices`, the other strategies the trainer's
  /// group; a global batch is batch_size * gradient_accumulation rows for each device.
  Strategy strategy = Strategy::none;
  std::vector<Device> devices = {};
  StrategyOptions strategy_options = {};

  std::int64_t logging_steps =
      10;                       // a line of metrics every so many steps and at the last; 0: none
  std::int64_t eval_steps = 0;  // 0: only after each epoch
  bool eval_each_epoch = true;
  std::int64_t save_steps = 0;       // a checkpoint every so many steps, and at the end; 0: none
  std::size_t save_total_limit = 0;  // keep the latest so many; 0: all
  /// A checkpoint, or a folder of checkpoints of which the latest is used.
  std::filesystem::path resume_from = {};

  // Sentence tasks only.
  Dealing dealing = Dealing::proportional;
  bool shuffle = true;  // false: the rows of each data set in their order
  bool no_duplicates = false;
  std::int64_t max_length = 0;  // tokens; 0: the tokenizer's own limit
  bool padded = false;
};

using EvaluateFunction = std::function<Metrics(const EvaluationPoint&)>;

/// Over all ranks together, the same on each.
struct StepReport {
  std::int64_t step = 0;  // done, counted from 1
  std::int64_t total_steps = 0;
  double epoch = 0;
  StepResult result;
  double lr = 0;
  double grad_norm = 0;  // before clipping
};

/// Callbacks for a program's output; the library itself prints nothing. Empty ones are skipped.
struct TrainerCallbacks {
  /// On a GPU, between evaluations and checkpoints, each step is reported while the next one is in
  /// flight.
  std::function<void(const StepReport&)> on_step = {};
  std::function<void(const EvaluationPoint&, const Metrics&)> on_evaluate = {};
  std::function<void(const std::filesystem::path& checkpoint)> on_save = {};
  /// One line about anything that the run does differently than requested.
  std::function<void(const std::string&)> on_note = {};
};

struct TrainingResult {
  std::int64_t steps = 0;   // done in all, also before resuming
  double loss = 0;          // mean over all these steps
  Metrics dataset_losses;   // with several data sets, the mean over each one's steps
  double seconds = 0;       // of training, without evaluating and saving
  double data_seconds = 0;  // of these, until steps had their batches
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t lone_rows = 0;       // StepResult's, of all these steps
  std::int64_t replayed_steps = 0;  // that replayed a graph
  /// One row per finished epoch: its mean loss and the metrics of the evaluation after it.
  struct Epoch {
    std::size_t epoch;  // counted from 1
    double loss;
    Metrics metrics;
  };
  std::vector<Epoch> epochs;
};

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
                    ExampleOptions{arguments.batch_size, arguments.gradient_accumulation,
                                   arguments.seed, /*shuffle=*/true,
                                   static_cast<std::size_t>(group.rank()),
                                   static_cast<std::size_t>(group.size())}),
                arguments, group) {}

  void add_evaluator(EvaluateFunction evaluate) { evaluators_.push_back(std::move(evaluate)); }
  void set_callbacks(TrainerCallbacks callbacks) { callbacks_ = std::move(callbacks); }

  /// Runs to the end, or until a callback or an evaluator calls stop(). Afterwards the thread's
  /// generator is as before. Wrong input is InputError before the first step; a later Error ends
  /// with its place, "(rank 1, training step 7)".
  TrainingResult train();
  /// Ends the run after the current step (in on_step on a GPU: after the step that follows the
  /// reported one). With `save` it leaves a checkpoint there, which needs an output folder. A call
  /// on one rank ends the run on all.
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
