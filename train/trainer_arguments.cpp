#include "ringlet/train/trainer_arguments.h"

#include "ringlet/train/optimizer/update_rules.h"

namespace ringlet::train {

bool compares_evaluations(const TrainingArguments& arguments) {
  return arguments.load_best_model_at_end || arguments.save_strategy == SaveStrategy::best ||
         !arguments.metric_for_best_model.empty();
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
          .logical_ranks = arguments.logical_ranks,
          .equal_batches = traits(arguments.strategy).parameters,
          .devices = arguments.strategy == Strategy::dp ? arguments.devices.size() : 1};
}

std::unique_ptr<Optimizer> make_optimizer(nn::Module& module, const TrainingArguments& arguments) {
  if (arguments.optim == OptimizerKind::sgd)
    return std::make_unique<Sgd>(module, SgdOptions{.lr = arguments.learning_rate,
                                                    .momentum = arguments.momentum,
                                                    .weight_decay = arguments.weight_decay,
                                                    .groups = arguments.parameter_groups,
                                                    .max_grad_norm = arguments.max_grad_norm,
                                                    .ema_decay = arguments.ema_decay});
  return std::make_unique<AdamW>(module, AdamWOptions{.lr = arguments.learning_rate,
                                                      .beta1 = arguments.adam_beta1,
                                                      .beta2 = arguments.adam_beta2,
                                                      .eps = arguments.adam_epsilon,
                                                      .weight_decay = arguments.weight_decay,
                                                      .groups = arguments.parameter_groups,
                                                      .max_grad_norm = arguments.max_grad_norm,
                                                      .ema_decay = arguments.ema_decay});
}

int moments_of(const TrainingArguments& arguments) {
  const int average = arguments.ema_decay > 0 ? 1 : 0;
  if (arguments.optim == OptimizerKind::adamw) return 2 + average;
  return (arguments.momentum != 0 ? 1 : 0) + average;
}

std::string why_no_step_graphs(const TrainingArguments& arguments) {
  if (arguments.logical_ranks > 1) return "a step of several logical ranks is not captured";
  if (arguments.strategy == Strategy::dp || traits(arguments.strategy).gradients)
    return str("strategy ", kStrategies(arguments.strategy), " works on the host in each");
  if (arguments.gradient_accumulation_steps > 1) return "a step of several batches is not captured";
  if (arguments.mini_batch_size > 0) return "a step of several forwards is not captured";
  return "";
}

}  // namespace ringlet::train
