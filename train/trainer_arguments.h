// A trainer's arguments, and the parts of a training that follow from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/train/data/loader.h"
#include "ringlet/train/optimizer/optimizer_state.h"
#include "ringlet/train/optimizer/schedule.h"
#include "ringlet/train/parallel/model/attached_strategy.h"
#include "ringlet/train/parallel/model/mesh.h"
#include "ringlet/train/parallel/model/pipeline_schedule.h"
#include "ringlet/train/step/task.h"

namespace ringlet::train {

class Optimizer;

enum class OptimizerKind { adamw, sgd };
inline constexpr EnumNames<OptimizerKind, 2> kOptimizers{"optimizer", {"adamw", "sgd"}};

/// `steps` means every so many steps and at the last one; `epoch`, after each epoch and at the last
/// step.
enum class EvalStrategy { no, steps, epoch };
inline constexpr EnumNames<EvalStrategy, 3> kEvalStrategies{"eval strategy",
                                                            {"no", "steps", "epoch"}};
/// `best` means after each evaluation with the best metric so far.
enum class SaveStrategy { no, steps, epoch, best };
inline constexpr EnumNames<SaveStrategy, 4> kSaveStrategies{"save strategy",
                                                            {"no", "steps", "epoch", "best"}};

/// Fields with a name of Hugging Face's TrainingArguments mean the same and have its default,
/// except `output_dir`. The others have no counterpart there.
struct TrainingArguments {
  /// The folder of metrics.jsonl and checkpoints, and of the evaluators' tables below "eval";
  /// created if it is missing. Empty: nothing is written.
  std::filesystem::path output_dir = {};
  bool tensorboard = false;     // also write the figures of metrics.jsonl as TensorBoard's events
  double num_train_epochs = 3;  // 0.5: half of the first one's steps, rounded up
  std::int64_t max_steps = -1;  // more than 0: instead of epochs

  std::size_t per_device_train_batch_size = 8;  // rows per device and forward
  std::size_t per_device_eval_batch_size = 8;   // of the evaluation data sets' losses
  /// Batches of a step. A loss that compares rows (Loss::spans_ranks) takes them as one batch.
  std::size_t gradient_accumulation_steps = 1;
  /// A step is dealt to so many logical ranks, of which each device has a contiguous block. The
  /// bits of a run then do not depend on the number of devices. 0: as many as devices.
  std::size_t logical_ranks = 0;
  std::size_t mini_batch_size = 0;  // rows of one forward, for the memory of so many; 0: all
  double learning_rate = 5e-5;
  Decay lr_scheduler_type = Decay::linear;
  double warmup_ratio = 0;
  std::int64_t warmup_steps = 0;  // more than 0: instead of the ratio
  /// The rate's factor at step 0, 1, …, instead of the above. A resumed run needs the same values.
  std::function<double(std::int64_t step)> lr_lambda = {};
  OptimizerKind optim = OptimizerKind::adamw;
  double weight_decay = 0;
  /// Parameters with a separate rate or decay, which the schedule multiplies alike.
  std::vector<ParameterGroup> parameter_groups = {};
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double momentum = 0;       // SGD's
  double max_grad_norm = 1;  // 0: no clipping
  /// More than 0: of a moving average of the parameters. Evaluations use it, and the run ends with
  /// it.
  double ema_decay = 0;
  /// f32, or bf16 for the activations of every Transformer in the task.
  DType dtype = DType::f32;
  /// Every Transformer keeps only its layers' inputs, and computes each layer again in backward.
  /// The bits are the same; a step needs less memory and one more forward.
  bool gradient_checkpointing = false;
  std::uint64_t seed = 42;
  /// For sentence tasks on one GPU: whether a whole step is captured with the first batch of each
  /// shape, and then replayed. Both modes fill batches up to such shapes: the bits are the same.
  StepGraphMode step_graphs = StepGraphMode::automatic;

  /// How several devices train together. dp uses `devices`, the other strategies the trainer's
  /// group; a global batch is per_device_train_batch_size * gradient_accumulation_steps rows for
  /// each device, or for each logical rank.
  Strategy strategy = Strategy::none;
  std::vector<Device> devices = {};
  StrategyOptions strategy_options = {};
  /// The trainer's group as a grid. The strategy works along the axis `data`. Along `pipe` each
  /// rank has some layers, and a step's batches are the micro-batches of a pipeline. Along `tensor`
  /// each rank has slices of the layers (TensorParallel). Sentence tasks only.
  MeshShape mesh = {};
  bool tensor_sequence = false;  // TensorParallelOptions::sequence
  /// For strategies that shard, on CPUs: how many other ranks have a copy of each shard, 0 or 1.
  /// With 1, ranks that are left when others end go on from memory (Trainer::take_snapshot).
  int redundancy = 0;
  PipelineOptions pipeline = {};

  std::int64_t logging_steps = 500;  // metrics every so many steps and at the last; 0: none
  EvalStrategy eval_strategy = EvalStrategy::no;
  std::int64_t eval_steps = 0;  // 0: logging_steps
  SaveStrategy save_strategy = SaveStrategy::steps;
  std::int64_t save_steps = 500;
  /// Keep so many checkpoints, the latest ones; the last and the best are never removed. 0: all.
  std::size_t save_total_limit = 0;
  /// More than 0: a digest of weights and moments every so many steps, in audit.jsonl in the output
  /// folder (checkpoint/audit.h). Checkpoints and the last step have one, too.
  std::int64_t audit_steps = 0;
  /// The run ends with the parameters of the evaluation with the best metric. Each evaluation that
  /// is the best so far is saved, under every save strategy.
  bool load_best_model_at_end = false;
  /// A figure of the evaluators, with or without its "eval_". Empty: "loss", if one is needed.
  std::string metric_for_best_model = {};
  std::optional<bool> greater_is_better = {};  // none: unless the metric's name ends with "loss"
  /// A checkpoint, or a folder of checkpoints of which the latest is used.
  std::filesystem::path resume_from_checkpoint = {};

  // Sentence tasks only, except for shuffle.
  Dealing multi_dataset_batch_sampler = Dealing::proportional;
  bool shuffle = true;  // false: the rows of each data set in their order
  BatchSampler batch_sampler = BatchSampler::batch_sampler;
  std::int64_t max_length = 0;  // tokens; 0: the tokenizer's own limit
  Prompts prompts = {};         // before texts that are trained on, or in an evaluation loss
  bool padded = false;
};

/// Whether evaluations are compared by metric_for_best_model.
bool compares_evaluations(const TrainingArguments& arguments);
/// Steps from one evaluation to the next under EvalStrategy::steps.
std::int64_t eval_interval(const TrainingArguments& arguments);
/// The options of this rank of the trainer's group.
LoaderOptions loader_options(const TrainingArguments& arguments, const comm::Group& group);
std::unique_ptr<Optimizer> make_optimizer(nn::Module& module, const TrainingArguments& arguments);
/// The number of moments that the optimizer keeps for each element.
int moments_of(const TrainingArguments& arguments);
/// Why steps cannot be captured; empty if they can.
std::string why_no_step_graphs(const TrainingArguments& arguments);

}  // namespace ringlet::train
