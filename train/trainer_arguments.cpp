#include "ringlet/train/trainer_arguments.h"

#include <fmt/format.h>

#include "ringlet/core/ops/matmul.h"

namespace ringlet::train {

void check_arguments(const TrainingArguments& arguments, const comm::Group& group) {
  const auto at_least_0 = [](const char* option, double value) {
    if (!(value >= 0)) fail_input(option, ": expected 0 or more, found ", value);
  };
  at_least_0("learning rate", arguments.lr);
  at_least_0("weight decay", arguments.weight_decay);
  at_least_0("max gradient norm", arguments.max_grad_norm);
  at_least_0("momentum", arguments.momentum);
  if (arguments.momentum != 0 && arguments.optimizer != OptimizerKind::sgd)
    fail_input("momentum: only sgd has it; ", kOptimizers(arguments.optimizer), " has betas");
  at_least_0("logging steps", static_cast<double>(arguments.logging_steps));
  at_least_0("evaluation steps", static_cast<double>(arguments.eval_steps));
  at_least_0("save steps", static_cast<double>(arguments.save_steps));
  at_least_0("max steps", static_cast<double>(arguments.max_steps));
  if (arguments.save_steps > 0 && arguments.output.empty())
    fail_input("save steps: expected an output folder for the checkpoints");
  const bool dp = arguments.strategy == Strategy::dp;
  if (dp == arguments.devices.empty())
    fail_input("devices: ", dp ? "dp needs at least one" : "only dp has several in one process");
  if ((dp || arguments.strategy == Strategy::none) && group.size() > 1)
    fail_input("strategy ", kStrategies(arguments.strategy), ": expected one rank, found ",
               group.size(), "; several need strategy ", kStrategies.list_from(Strategy::ddp),
               " (--strategy ddp)");
}

LoaderOptions loader_options(const TrainingArguments& arguments, const comm::Group& group) {
  return {.batch_size = arguments.batch_size,
          .accumulation = arguments.gradient_accumulation,
          .seed = arguments.seed,
          .dealing = arguments.dealing,
          .shuffle = arguments.shuffle,
          .no_duplicates = arguments.no_duplicates,
          .max_length = arguments.max_length,
          .padded = arguments.padded,
          .rank = static_cast<std::size_t>(group.rank()),
          .world_size = static_cast<std::size_t>(group.size()),
          .devices = arguments.strategy == Strategy::dp ? arguments.devices.size() : 1};
}

std::unique_ptr<Optimizer> make_optimizer(nn::Module& module, const TrainingArguments& arguments) {
  if (arguments.optimizer == OptimizerKind::sgd)
    return std::make_unique<Sgd>(module, SgdOptions{.lr = arguments.lr,
                                                    .momentum = arguments.momentum,
                                                    .weight_decay = arguments.weight_decay,
                                                    .max_grad_norm = arguments.max_grad_norm});
  return std::make_unique<AdamW>(module, AdamWOptions{.lr = arguments.lr,
                                                      .beta1 = arguments.beta1,
                                                      .beta2 = arguments.beta2,
                                                      .eps = arguments.eps,
                                                      .weight_decay = arguments.weight_decay,
                                                      .max_grad_norm = arguments.max_grad_norm});
}

int moments_of(const TrainingArguments& arguments) {
  if (arguments.optimizer == OptimizerKind::adamw) return 2;
  return arguments.momentum != 0 ? 1 : 0;
}

std::string why_no_step_graphs(const TrainingArguments& arguments) {
  if (arguments.strategy != Strategy::none)
    return str("strategy ", kStrategies(arguments.strategy), " works on the host in each");
  if (arguments.gradient_accumulation > 1) return "a step of several batches is not captured";
  return "";
}

UpdateArguments update_arguments(const TrainingArguments& arguments, std::int64_t total_steps,
                                 std::int64_t warmup_steps) {
  const auto exact = [](double value) { return fmt::format("{}", value); };
  const std::string optimizer = arguments.optimizer == OptimizerKind::sgd
                                    ? "sgd, --momentum " + exact(arguments.momentum)
                                    : str("adamw, beta1 ", exact(arguments.beta1), ", beta2 ",
                                          exact(arguments.beta2), ", eps ", exact(arguments.eps));
  return {{"--dtype", str(arguments.dtype)},
          {"--matmul-precision", str(precision_name(matmul_precision()))},
          {"--optimizer", optimizer},
          {"--lr", exact(arguments.lr)},
          {"--schedule", str(kDecays(arguments.schedule))},
          {"steps (--epochs, --max-steps)", std::to_string(total_steps)},
          {"warm-up steps (--warmup)", std::to_string(warmup_steps)},
          {"--weight-decay", exact(arguments.weight_decay)},
          {"largest gradient norm (--clip)", exact(arguments.max_grad_norm)}};
}

}  // namespace ringlet::train
