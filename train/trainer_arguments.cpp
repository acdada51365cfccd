#include "ringlet/train/trainer_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ringlet/core/ops/matmul.h"

namespace ringlet::train {

namespace {

void check_strategies(const TrainingArguments& arguments) {
  if (arguments.eval_strategy == EvalStrategy::steps && eval_interval(arguments) == 0)
    fail_input("eval strategy steps: expected eval steps or logging steps above 0");
  if (arguments.save_strategy == SaveStrategy::steps && arguments.save_steps < 1)
    fail_input("save strategy steps: expected save steps of at least 1, found ",
               arguments.save_steps);
  const bool saves_best = arguments.save_strategy == SaveStrategy::best;
  if (!arguments.load_best_model_at_end && !saves_best) return;
  const char* const wanted = saves_best ? "save strategy best" : "load best model at end";
  if (arguments.eval_strategy == EvalStrategy::no)
    fail_input(wanted, ": expected eval strategy steps or epoch, found no");
  if (arguments.output_dir.empty())
    fail_input(wanted, ": expected an output folder for the checkpoints");
}

void check_mesh(const TrainingArguments& arguments) {
  const MeshShape& mesh = arguments.mesh;
  if (arguments.tensor_sequence && mesh.tensor == 1)
    fail_input("tensor sequence: expected a mesh with tensor=2 or more");
  if (mesh.pipe * mesh.tensor == 1) return;
  if (arguments.strategy == Strategy::dp || arguments.strategy == Strategy::none)
    fail_input("mesh pipe=", mesh.pipe, ",tensor=", mesh.tensor, ": expected strategy ",
               kStrategies.list_from(Strategy::ddp), ", found ", kStrategies(arguments.strategy));
  if (mesh.pipe == 1) return;
  if (arguments.mini_batch_size > 0)
    fail_input("mesh pipe=", mesh.pipe, ": expected no mini batch size; the micro-batches of a ",
               "pipeline are those of gradient accumulation steps");
  const auto passes = static_cast<int>(arguments.gradient_accumulation_steps);
  if (arguments.pipeline.schedule == PipelineKind::interleaved && passes % mesh.pipe != 0)
    fail_input("gradient accumulation steps ", passes, ": expected a multiple of ", mesh.pipe,
               ", the ranks along pipe, for pipeline schedule interleaved-1f1b");
  if (arguments.pipeline.schedule != PipelineKind::zero_bubble) return;
  if (arguments.strategy == Strategy::fsdp || arguments.gradient_checkpointing)
    fail_input("pipeline schedule zero-bubble: its backward has two parts; expected a strategy ",
               "other than fsdp and no gradient checkpointing");
}

}  // namespace

void check_arguments(const TrainingArguments& arguments, const comm::Group& group) {
  const auto at_least_0 = [](const char* option, double value) {
    if (!(value >= 0)) fail_input(option, ": expected 0 or more, found ", value);
  };
  at_least_0("learning rate", arguments.learning_rate);
  at_least_0("weight decay", arguments.weight_decay);
  at_least_0("max gradient norm", arguments.max_grad_norm);
  at_least_0("momentum", arguments.momentum);
  if (arguments.momentum != 0 && arguments.optim != OptimizerKind::sgd)
    fail_input("momentum: only sgd has it; ", kOptimizers(arguments.optim), " has betas");
  at_least_0("logging steps", static_cast<double>(arguments.logging_steps));
  at_least_0("evaluation steps", static_cast<double>(arguments.eval_steps));
  if (!(arguments.num_train_epochs > 0) && arguments.max_steps <= 0)
    fail_input("train epochs: expected more than 0, found ", arguments.num_train_epochs);
  check_strategies(arguments);
  const bool dp = arguments.strategy == Strategy::dp;
  if (dp == arguments.devices.empty())
    fail_input("devices: ", dp ? "dp needs at least one" : "only dp has several in one process");
  check_mesh(arguments);
  if ((dp || arguments.strategy == Strategy::none) && group.size() > 1)
    fail_input("strategy ", kStrategies(arguments.strategy), ": expected one rank, found ",
               group.size(), "; several need strategy ", kStrategies.list_from(Strategy::ddp),
               " (--strategy ddp)");
}

void check_has_use(const TrainingArguments& arguments, const TrainingTask& task) {
  const TrainingArguments unset;
  const auto expect_unset = [&](const char* name, auto TrainingArguments::*argument) {
    if (arguments.*argument != unset.*argument)
      fail_input(name, ": only tasks of sentences have it");
  };
  expect_unset("mini batch size", &TrainingArguments::mini_batch_size);
  expect_unset("multi dataset batch sampler", &TrainingArguments::multi_dataset_batch_sampler);
  expect_unset("batch sampler", &TrainingArguments::batch_sampler);
  expect_unset("max length", &TrainingArguments::max_length);
  expect_unset("prompts", &TrainingArguments::prompts);
  expect_unset("padded", &TrainingArguments::padded);
  if (arguments.shuffle) return;
  const UpdateArguments of_task = task.arguments();
  const auto order = of_task.find(kOrder);
  if (order == of_task.end() || order->second != kAsGiven)
    fail_input("shuffle: expected a task that takes its rows in their order");
}

std::int64_t eval_interval(const TrainingArguments& arguments) {
  return arguments.eval_steps > 0 ? arguments.eval_steps : arguments.logging_steps;
}

LoaderOptions loader_options(const TrainingArguments& arguments, const comm::Group& group) {
  const MeshShape mesh = arguments.mesh.over(group.size());
  return {.batch_size = arguments.per_device_train_batch_size,
          .accumulation = arguments.gradient_accumulation_steps,
          .mini_batch_size = arguments.mini_batch_size,
          .seed = arguments.seed,
          .dealing = arguments.multi_dataset_batch_sampler,
          .shuffle = arguments.shuffle,
          .batch_sampler = arguments.batch_sampler,
          .max_length = arguments.max_length,
          .padded = arguments.padded,
          .prompts = arguments.prompts,
          .rank = static_cast<std::size_t>(mesh.data_place(group.rank())),
          .world_size = static_cast<std::size_t>(mesh.data),
          .devices = arguments.strategy == Strategy::dp ? arguments.devices.size() : 1};
}

std::unique_ptr<Optimizer> make_optimizer(nn::Module& module, const TrainingArguments& arguments) {
  if (arguments.optim == OptimizerKind::sgd)
    return std::make_unique<Sgd>(module, SgdOptions{.lr = arguments.learning_rate,
                                                    .momentum = arguments.momentum,
                                                    .weight_decay = arguments.weight_decay,
                                                    .max_grad_norm = arguments.max_grad_norm});
  return std::make_unique<AdamW>(module, AdamWOptions{.lr = arguments.learning_rate,
                                                      .beta1 = arguments.adam_beta1,
                                                      .beta2 = arguments.adam_beta2,
                                                      .eps = arguments.adam_epsilon,
                                                      .weight_decay = arguments.weight_decay,
                                                      .max_grad_norm = arguments.max_grad_norm});
}

int moments_of(const TrainingArguments& arguments) {
  if (arguments.optim == OptimizerKind::adamw) return 2;
  return arguments.momentum != 0 ? 1 : 0;
}

std::string why_no_step_graphs(const TrainingArguments& arguments) {
  if (arguments.strategy != Strategy::none)
    return str("strategy ", kStrategies(arguments.strategy), " works on the host in each");
  if (arguments.gradient_accumulation_steps > 1) return "a step of several batches is not captured";
  if (arguments.mini_batch_size > 0) return "a step of several forwards is not captured";
  return "";
}

UpdateArguments update_arguments(const TrainingArguments& arguments, std::int64_t total_steps,
                                 std::int64_t warmup_steps) {
  const auto exact = [](double value) { return fmt::format("{}", value); };
  const std::string optimizer =
      arguments.optim == OptimizerKind::sgd
          ? "sgd, --momentum " + exact(arguments.momentum)
          : str("adamw, beta1 ", exact(arguments.adam_beta1), ", beta2 ",
                exact(arguments.adam_beta2), ", eps ", exact(arguments.adam_epsilon));
  UpdateArguments all{{"--dtype", str(arguments.dtype)},
                      {"--matmul-precision", str(precision_name(matmul_precision()))},
                      {"--optimizer", optimizer},
                      {"--lr", exact(arguments.learning_rate)},
                      {"--schedule", str(kDecays(arguments.lr_scheduler_type))},
                      {"steps (--epochs, --max-steps)", std::to_string(total_steps)},
                      {"warm-up steps (--warmup)", std::to_string(warmup_steps)},
                      {"--weight-decay", exact(arguments.weight_decay)},
                      {"largest gradient norm (--clip)", exact(arguments.max_grad_norm)}};
  // A norm is summed in the order of the units.
  const nn::UnitPolicy& units = arguments.strategy_options.units;
  if (!units.is_default() && arguments.max_grad_norm > 0)
    all["units (--fsdp-units, --fsdp-min-num-params)"] =
        fmt::format("classes {}; elements {}", fmt::join(units.classes, ","), units.min_numel);
  return all;
}

}  // namespace ringlet::train
