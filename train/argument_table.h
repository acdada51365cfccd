// The table of a training's arguments. It makes options of `ringlet train`, checks, rows of model
// cards, and a checkpoint's record of what decides about bits.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/base/setting.h"
#include "ringlet/train/trainer_arguments.h"

namespace ringlet::train {

class TrainingTask;

enum ArgumentTraits : unsigned {
  kPlain = 0,
  kOffCard = 1,       // has no row in model cards: folders and the like
  kNoneIs0 = 2,       // a model card has None for 0
  kForSentences = 4,  // other tasks would ignore it
  kDdp = 8,           // only this strategy has it
  kFsdp = 16,
  kOr0 = 32  // a program may pass 0, too; of an option it means: not given
};

struct ArgumentRow {
  const char* name;         // in messages and model cards
  const char* option = "";  // of `ringlet train`; empty: none
  const char* help = "";    // of the option
  unsigned traits = kPlain;
  const char* saved = "";  // in checkpoints, where another value means other bits; empty: none
};

/// Calls visit(row, field, limits...) in the order of model cards. `limits`: a Range, EnumNames, or
/// nothing.
template <class Arguments, class Visit>
void each_argument(Arguments& a, const Visit& visit) {
  constexpr Range<std::int64_t> kManySteps{0, std::int64_t{1} << 40};
  constexpr Range<int> kManyRows{1, 1 << 20};
  visit({"output_dir", "--output",
         "A new or empty folder, or one of a run that ended before its first checkpoint", kOffCard},
        a.output_dir);
  visit({"tensorboard", "--tensorboard",
         "Also write metrics.jsonl's figures as TensorBoard's event files", kOffCard},
        a.tensorboard);
  visit({"num_train_epochs", "--epochs", "1 unless given; 2 of the project's own data", kOr0},
        a.num_train_epochs, Range{1e-6, 1e6});
  visit({"max_steps", "--max-steps", "Instead of epochs"}, a.max_steps,
        Range{std::int64_t{1}, kManySteps.high});
  visit({"per_device_train_batch_size", "--batch", "Rows of a step on one device"},
        a.per_device_train_batch_size, kManyRows);
  visit({"per_device_eval_batch_size", "--eval-batch",
         "Rows of a batch whose loss or labels are evaluated"},
        a.per_device_eval_batch_size, kManyRows);
  visit({"gradient_accumulation_steps", "--gradient-accumulation-steps",
         "Batches of each device, or logical rank, whose gradients make a step; one batch for a "
         "ranking loss"},
        a.gradient_accumulation_steps, kManyRows);
  visit({"logical_ranks", "--logical-ranks",
         "Deal a step to so many logical ranks, blocks of which are on each device: results then "
         "do not depend on the number of devices; one on each unless given",
         kNoneIs0 | kOr0},
        a.logical_ranks, Range{1, 1 << 12});  // as many as `ringlet run -n` starts
  visit({"mini_batch_size", "--mini-batch-size",
         "Rows of one forward, for the memory of so many at any batch size; 0: all",
         kNoneIs0 | kForSentences},
        a.mini_batch_size, Range{0, kManyRows.high});
  visit({"learning_rate", "--lr", "Learning rate; 2e-05 for a trained model, 0.001 for a new one",
         kOr0, "--lr"},
        a.learning_rate, Range{1e-12, 10.0});
  visit({"lr_scheduler_type", "--schedule", "How the learning rate falls behind the warm-up",
         kPlain, "--schedule"},
        a.lr_scheduler_type, kDecays);
  visit({"warmup_ratio"}, a.warmup_ratio, Range{0.0, 1.0});
  visit({"warmup_steps"}, a.warmup_steps);
  visit({"optim", "--optimizer", "adamw or sgd"}, a.optim, kOptimizers);
  visit({"weight_decay", "--weight-decay", "Of all but biases and LayerNorm", kPlain,
         "--weight-decay"},
        a.weight_decay, Range{0.0, 10.0});
  visit({"adam_beta1"}, a.adam_beta1);
  visit({"adam_beta2"}, a.adam_beta2);
  visit({"adam_epsilon"}, a.adam_epsilon);
  visit({"momentum", "--momentum", "SGD's"}, a.momentum, Range{0.0, 1.0});
  visit({"max_grad_norm", "--clip", "Global norm of gradients at most; 0: no clipping", kPlain,
         "largest gradient norm (--clip)"},
        a.max_grad_norm, Range{0.0, 1e9});
  visit({"ema_decay", "--ema-decay",
         "Decay of a moving average of the parameters, which evaluations and the saved model "
         "have; 0: none",
         kOffCard},
        a.ema_decay, Range{0.0, 1 - 1e-9});
  visit({"dtype", "", "", kPlain, "--dtype"}, a.dtype);
  visit({"gradient_checkpointing", "--gradient-checkpointing",
         "Compute each layer again in backward: less memory, one more forward"},
        a.gradient_checkpointing);
  visit({"seed", "--seed", "Of weights, order, dropout and the project's own data"}, a.seed,
        Range{std::int64_t{0}, std::numeric_limits<std::int64_t>::max()});
  visit({"step_graphs", "--step-graphs",
         "On a GPU, capture a step of each shape once and replay it: auto or off; the results "
         "are the same",
         kOffCard},
        a.step_graphs, kStepGraphModes);
  visit({"strategy", "--strategy", "How several devices train together (none, or ddp with --mesh)"},
        a.strategy, kStrategies);
  visit({"redundancy", "--redundancy",
         "zero1, zero2, fsdp under `ringlet run --min-ranks`: the next rank has a copy of each "
         "shard (1), so that others go on from memory when ranks die",
         kOffCard},
        a.redundancy, Range{0, 1});
  visit({"tensor_sequence", "--tensor-sequence",
         "Sequence parallelism: devices along the mesh's tensor also split the tokens between "
         "an encoder's blocks",
         kOffCard},
        a.tensor_sequence);
  visit({"pipeline_schedule", "--pipeline-schedule",
         "Order of a pipeline's micro-batches, --gradient-accumulation-steps of them", kOffCard},
        a.pipeline.schedule, kPipelines);
  visit({"pipeline_layers", "--pipeline-layers",
         "Layers of each stage, such as 2,3,3,4; by --pipeline-balance unless given", kOffCard},
        a.pipeline.layers, Range{1, 1 << 20});
  visit({"pipeline_balance", "--pipeline-balance",
         "What stages share out evenly; time is measured first", kOffCard},
        a.pipeline.balance, kPipelineBalances);
  visit({"bucket_cap_mb", "--bucket-cap-mb", "ddp: MiB of gradients that are summed at a time",
         kOffCard | kDdp},
        a.strategy_options.bucket_cap_mb, Range{1e-6, 1e6});
  visit({"reshard_after_forward", "--reshard-after-forward",
         "fsdp: let a layer's parameters go after its forward (true); false keeps them for "
         "backward: more memory, a third less to move",
         kOffCard | kFsdp},
        a.strategy_options.reshard_after_forward);
  visit({"prefetch", "--prefetch",
         "fsdp: gather the next layer while one computes, in forward and backward (true)",
         kOffCard | kFsdp},
        a.strategy_options.prefetch);
  visit({"fsdp_shard_size", "--fsdp-shard-size",
         "fsdp: so many consecutive ranks along data share one set of shards, and the others "
         "are replicas; all share one unless given",
         kOffCard | kFsdp | kOr0},
        a.strategy_options.shard_size, Range{1, 1 << 10});
  visit({"fsdp_units", "--fsdp-units",
         "fsdp: classes of the modules that are sharded as a whole, such as "
         "MPNetLayer,Embeddings; layers and embeddings unless given",
         kOffCard | kFsdp},
        a.strategy_options.units.classes);
  visit({"fsdp_min_num_params", "--fsdp-min-num-params",
         "fsdp: also the modules with so many parameters outside inner units; alone, these "
         "instead of layers and embeddings",
         kOffCard | kFsdp | kOr0},
        a.strategy_options.units.min_numel, Range{std::int64_t{1}, std::int64_t{1} << 40});
  visit({"logging_steps", "--logging-steps",
         "A line of metrics every so many steps and at the last; 0: none"},
        a.logging_steps, kManySteps);
  visit({"eval_strategy", "--eval-strategy",
         "When to evaluate: epoch, the default; steps, with --eval-steps; or no"},
        a.eval_strategy, kEvalStrategies);
  visit({"eval_steps", "--eval-steps",
         "Evaluate every so many steps and at the last, not after each epoch", kNoneIs0},
        a.eval_steps, kManySteps);
  visit({"save_strategy", "--save-strategy",
         "When to save a checkpoint: no, the default; steps, with --save-steps; epoch; or best, "
         "after each evaluation with the best metric so far"},
        a.save_strategy, kSaveStrategies);
  visit({"save_steps", "--save-steps", "A checkpoint every so many steps and at the last"},
        a.save_steps, kManySteps);
  visit({"save_total_limit", "--save-total-limit",
         "Keep so many checkpoints; the last and the best are never removed; 0: all", kNoneIs0},
        a.save_total_limit, Range{0, kManyRows.high});
  visit({"audit_steps", "--audit-steps",
         "Every so many steps, write a digest of weights and moments to audit.jsonl, which "
         "ringlet audit checks; 0: never",
         kOffCard},
        a.audit_steps, kManySteps);
  visit({"load_best_model_at_end", "--load-best-model-at-end",
         "End with the model of the best evaluation; each best so far is saved"},
        a.load_best_model_at_end);
  visit({"metric_for_best_model", "--metric-for-best-model",
         "The figure that compares evaluations, as metrics.jsonl names it (loss)"},
        a.metric_for_best_model);
  visit({"greater_is_better", "--greater-is-better",
         "Whether that figure is better if greater (true unless it ends with loss)"},
        a.greater_is_better);
  visit({"batch_sampler", "--batch-sampler",
         "Which rows form a batch: batch_sampler, their order; no_duplicates, the default for "
         "mnrl and symmetric, none that share a text; group_by_label, the default for "
         "batch_hard, some of each label",
         kForSentences},
        a.batch_sampler, kBatchSamplers);
  visit({"multi_dataset_batch_sampler", "--dealing",
         "How batches of several data sets alternate: proportional uses every row, round_robin "
         "ends an epoch with the smallest data set",
         kForSentences},
        a.multi_dataset_batch_sampler, kDealings);
  visit({"shuffle", "--no-shuffle", "Take the rows of each file in their order"}, a.shuffle);
  visit({"max_length", "", "", kNoneIs0 | kForSentences}, a.max_length);
  visit({"prompts", "", "", kForSentences}, a.prompts);
  visit({"padded", "--padded", "Pad each column, to see what it costs", kOffCard | kForSentences},
        a.padded);
}

/// InputError that names an argument for sentences that this other task would ignore.
void check_has_use(const TrainingArguments& arguments, const TrainingTask& task);

/// InputError that names the argument, the expected values and the one found. `ranks`: of the
/// trainer's group.
void check_arguments(const TrainingArguments& arguments, int ranks);

/// Every argument under its name, as Python prints it; not folders, devices and the like, which
/// differ between machines.
std::vector<std::pair<std::string, std::string>> argument_texts(const TrainingArguments& arguments);
/// The arguments that differ from the defaults.
std::vector<std::pair<std::string, std::string>> changed_arguments(
    const TrainingArguments& arguments);

/// The settings that an update depends on, in addition to the data. With another value, a resumed
/// run would continue with other bits than the stopped one.
UpdateArguments update_arguments(const TrainingArguments& arguments, std::int64_t total_steps,
                                 std::int64_t warmup_steps);

}  // namespace ringlet::train
