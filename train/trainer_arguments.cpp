#include "ringlet/train/trainer_arguments.h"

#include <fmt/format.h>

#include "ringlet/core/quote.h"

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
    fail_input("momentum: only sgd has it; ", optimizer_name(arguments.optimizer), " has betas");
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
    fail_input("strategy ", strategy_name(arguments.strategy), ": expected one rank, found ",
               group.size());
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
    return str("strategy ", strategy_name(arguments.strategy), " works on the host in each");
  if (arguments.gradient_accumulation > 1) return "a step of several batches is not captured";
  return "";
}

UpdateArguments update_arguments(const TrainingArguments& arguments, std::int64_t warmup_steps) {
  const auto exact = [](double value) { return fmt::format("{}", value); };
  UpdateArguments all{{"dtype", str(arguments.dtype)},
                      {"optimizer", optimizer_name(arguments.optimizer)},
                      {"learning rate", exact(arguments.lr)},
                      {"schedule", decay_name(arguments.schedule)},
                      {"warm-up steps", std::to_string(warmup_steps)},
                      {"weight decay", exact(arguments.weight_decay)},
                      {"max gradient norm", exact(arguments.max_grad_norm)}};
  if (arguments.optimizer == OptimizerKind::sgd) {
    all["momentum"] = exact(arguments.momentum);
  } else {
    all["beta1"] = exact(arguments.beta1);
    all["beta2"] = exact(arguments.beta2);
    all["eps"] = exact(arguments.eps);
  }
  return all;
}

void check_same_arguments(const std::filesystem::path& checkpoint, const UpdateArguments& saved,
                          const UpdateArguments& wanted) {
  const auto check_same = [&](const std::string& name, const std::string& value) {
    const auto found = saved.find(name);
    if (found == saved.end()) fail_input(checkpoint.string(), ": does not say its ", name);
    if (found->second != value)
      fail_input(checkpoint.string(), ": was trained with ", name, ' ', shown(found->second),
                 "; now it would be ", value);
  };
  check_same("optimizer", wanted.at("optimizer"));  // the others are not the same for each
  for (const auto& [name, value] : wanted) check_same(name, value);
}

}  // namespace ringlet::train
