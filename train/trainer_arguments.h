// A trainer's arguments, and the parts of a training that follow from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/train/attached_strategy.h"
#include "ringlet/train/loader.h"
#include "ringlet/train/schedule.h"
#include "ringlet/train/step_graphs.h"
#include "ringlet/train/task.h"
#include "ringlet/train/update_rules.h"

namespace ringlet::train {

enum class OptimizerKind { adamw, sgd };
inline constexpr Names<OptimizerKind, 2> kOptimizers{"optimizer", {"adamw", "sgd"}};

struct TrainingArguments {
  /// The folder of metrics.jsonl and checkpoints, and of the evaluators' tables below "eval";
  /// created if it is missing. Empty: nothing is written.
  std::filesystem::path output = {};
  bool tensorboard = false;  // also write the figures of metrics.jsonl as TensorBoard's events
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

/// InputError that names the argument, the expected values and the one found.
void check_arguments(const TrainingArguments& arguments, const comm::Group& group);

LoaderOptions loader_options(const TrainingArguments& arguments, const comm::Group& group);
std::unique_ptr<Optimizer> make_optimizer(nn::Module& module, const TrainingArguments& arguments);
/// The number of moments that the optimizer keeps for each element.
int moments_of(const TrainingArguments& arguments);
/// Why steps cannot be captured; empty if they can.
std::string why_no_step_graphs(const TrainingArguments& arguments);

/// The settings that an update depends on, in addition to the data. With another value, a resumed
/// run would continue with other bits than the stopped one.
UpdateArguments update_arguments(const TrainingArguments& arguments, std::int64_t total_steps,
                                 std::int64_t warmup_steps);

}  // namespace ringlet::train
