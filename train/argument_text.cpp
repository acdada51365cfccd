#include "ringlet/train/argument_text.h"

#include <fmt/format.h>

#include "ringlet/core/base/quote.h"

namespace ringlet::train {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

/// As Python prints them.
std::string text_of(bool value) { return value ? "True" : "False"; }
std::string text_of(const std::string& value) { return value.empty() ? "None" : value; }
std::string text_of(std::string_view value) { return std::string(value); }
std::string text_of(const std::optional<bool>& value) { return value ? text_of(*value) : "None"; }
std::string text_of(const Prompts& prompts) {
  std::string text;
  for (const auto& [column, prompt] : prompts)
    text += str(text.empty() ? "" : ", ", quote(column), ": ", quote(prompt));
  return text.empty() ? "None" : "{" + text + "}";
}
template <class Number>
requires std::is_arithmetic_v<Number> std::string text_of(Number value) {
  return fmt::format("{}", value);
}

}  // namespace

Texts argument_texts(const TrainingArguments& a) {
  Texts all;
  const auto add = [&](const char* name, const auto& value) {
    all.emplace_back(name, text_of(value));
  };
  // 0 means that there is none.
  const auto add_if_any = [&](const char* name, auto value) {
    all.emplace_back(name, value == 0 ? "None" : text_of(value));
  };
  add("num_train_epochs", a.num_train_epochs);
  add("max_steps", a.max_steps);
  add("per_device_train_batch_size", a.per_device_train_batch_size);
  add("per_device_eval_batch_size", a.per_device_eval_batch_size);
  add("gradient_accumulation_steps", a.gradient_accumulation_steps);
  add_if_any("mini_batch_size", a.mini_batch_size);
  add("learning_rate", a.learning_rate);
  add("lr_scheduler_type", kDecays(a.lr_scheduler_type));
  add("warmup_ratio", a.warmup_ratio);
  add("warmup_steps", a.warmup_steps);
  add("optim", kOptimizers(a.optim));
  add("weight_decay", a.weight_decay);
  add("adam_beta1", a.adam_beta1);
  add("adam_beta2", a.adam_beta2);
  add("adam_epsilon", a.adam_epsilon);
  add("momentum", a.momentum);
  add("max_grad_norm", a.max_grad_norm);
  add("bf16", a.dtype == DType::bf16);
  add("gradient_checkpointing", a.gradient_checkpointing);
  add("seed", a.seed);
  add("strategy", kStrategies(a.strategy));
  add("logging_steps", a.logging_steps);
  add("eval_strategy", kEvalStrategies(a.eval_strategy));
  add_if_any("eval_steps", a.eval_steps);
  add("save_strategy", kSaveStrategies(a.save_strategy));
  add("save_steps", a.save_steps);
  add_if_any("save_total_limit", a.save_total_limit);
  add("load_best_model_at_end", a.load_best_model_at_end);
  add("metric_for_best_model", a.metric_for_best_model);
  add("greater_is_better", a.greater_is_better);
  add("batch_sampler", kBatchSamplers(a.batch_sampler));
  add("multi_dataset_batch_sampler", kDealings(a.multi_dataset_batch_sampler));
  add("shuffle", a.shuffle);
  add_if_any("max_length", a.max_length);
  add("prompts", a.prompts);
  return all;
}

Texts changed_arguments(const TrainingArguments& arguments) {
  const Texts all = argument_texts(arguments), defaults = argument_texts({});
  Texts changed;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != defaults[i]) changed.push_back(all[i]);
  return changed;
}

}  // namespace ringlet::train
