#include "ringlet/train/argument_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/train/step/task.h"

namespace ringlet::train {

namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

/// As Python prints them.
std::string text_of(bool value) { return value ? "True" : "False"; }
std::string text_of(const std::string& value) { return value.empty() ? "None" : value; }
std::string text_of(const std::filesystem::path& value) { return value.string(); }
std::string text_of(DType value) { return str(value); }
std::string text_of(const std::optional<bool>& value) { return value ? text_of(*value) : "None"; }
std::string text_of(const Prompts& prompts) {
  std::string text;
  for (const auto& [column, prompt] : prompts)
    text += str(text.empty() ? "" : ", ", quote(column), ": ", quote(prompt));
  return text.empty() ? "None" : "{" + text + "}";
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}
template <class Number>
requires std::is_arithmetic_v<Number> std::string text_of(Number value) {
  return fmt::format("{}", value);
}
template <class T, class Number>
std::string text_of(const T& value, Range<Number>) {
  return text_of(value);
}
template <class Enum, std::size_t n>
std::string text_of(Enum value, const EnumNames<Enum, n>& names) {
  return std::string(names(value));
}

template <class T, class Number>
void check_value(const ArgumentRow& row, const T& value, Range<Number> range) {
  constexpr bool whole = std::integral<Number>;
  bool inside = (row.traits & kOr0) && value == T{};
  if constexpr (whole)
    inside |= std::cmp_less_equal(range.low, value) && std::cmp_less_equal(value, range.high);
  else
    inside |= range.low <= value && value <= range.high;
  if (!inside)
    fail_setting(row.name, ": expected ", row.traits & kOr0 ? "0 or " : "",
                 whole ? "a whole number" : "a number",
                 fmt::format(" from {} to {}, found {}", range.low, range.high, value));
}
template <class T, class Number>
void check_value(const ArgumentRow& row, const std::vector<T>& values, Range<Number> range) {
  for (const T& value : values) check_value(row, value, range);
}
template <class T>
void check_value(const ArgumentRow& row, const T& value) {
  if constexpr (std::is_arithmetic_v<T> && !std::same_as<T, bool>)
    if (!(value >= 0)) fail_setting(row.name, ": expected 0 or more, found ", value);
}
template <class Enum, std::size_t n>
void check_value(const ArgumentRow&, Enum, const EnumNames<Enum, n>&) {}

void check_strategies(const TrainingArguments& arguments) {
  if (arguments.eval_strategy == EvalStrategy::steps && eval_interval(arguments) == 0)
    fail_setting("eval_strategy", " steps: expected eval_steps or logging_steps above 0");
  if (arguments.save_strategy == SaveStrategy::steps && arguments.save_steps < 1)
    fail_setting("save_strategy", " steps: expected save_steps of at least 1, found ",
                 arguments.save_steps);
  if (!compares_evaluations(arguments)) return;
  const bool saves_best = arguments.save_strategy == SaveStrategy::best;
  const bool saves = saves_best || arguments.load_best_model_at_end;
  const auto refuse = [&](const char* why) {
    fail_setting(saves_best ? "save_strategy"
                 : saves    ? "load_best_model_at_end"
                            : "metric_for_best_model",
                 saves_best ? " best" : "", why);
  };
  if (arguments.eval_strategy == EvalStrategy::no)
    refuse(": expected eval_strategy steps or epoch, found no");
  if (saves && arguments.output_dir.empty())
    refuse(": expected an output folder for the checkpoints");
}

void check_mesh(const TrainingArguments& arguments) {
  const MeshShape& mesh = arguments.mesh;
  if (arguments.tensor_sequence && mesh.tensor == 1)
    fail_setting("tensor_sequence", ": expected a mesh with tensor=2 or more");
  if (mesh.pipe * mesh.tensor == 1) return;
  if (!traits(arguments.strategy).ranks)
    fail_setting("mesh", " pipe=", mesh.pipe, ",tensor=", mesh.tensor, ": expected strategy ",
                 kStrategies.list_from(Strategy::ddp), ", found ", kStrategies(arguments.strategy));
  if (mesh.pipe == 1) return;
  if (arguments.mini_batch_size > 0)
    fail_setting("mesh", " pipe=", mesh.pipe,
                 ": expected no mini batch size; the micro-batches of a ",
                 "pipeline are those of gradient accumulation steps");
  const auto passes = static_cast<int>(arguments.gradient_accumulation_steps);
  if (arguments.pipeline.schedule == PipelineKind::interleaved && passes % mesh.pipe != 0)
    fail_setting("gradient_accumulation_steps", ' ', passes, ": expected a multiple of ", mesh.pipe,
                 ", the ranks along pipe, for pipeline schedule interleaved-1f1b");
  if (arguments.pipeline.schedule != PipelineKind::zero_bubble) return;
  if (arguments.strategy == Strategy::fsdp || arguments.gradient_checkpointing)
    fail_setting("pipeline_schedule",
                 " zero-bubble: its backward has two parts; expected a strategy ",
                 "other than fsdp and no gradient checkpointing");
}

void check_logical_ranks(const TrainingArguments& arguments, int ranks) {
  if (arguments.logical_ranks == 0) return;
  const auto expect = [&](const auto&... what) {
    fail_setting("logical_ranks", ' ', arguments.logical_ranks, ": expected ", what...);
  };
  if (arguments.strategy == Strategy::dp) expect("another strategy than dp");
  if (arguments.mesh.pipe * arguments.mesh.tensor > 1)
    expect("neither pipe nor tensor in the mesh");
  if (std::cmp_less(arguments.logical_ranks, ranks)) expect("at least the ", ranks, " devices");
}

void check_redundancy(const TrainingArguments& arguments) {
  if (arguments.redundancy == 0) return;
  const auto expect = [&](const auto&... what) {
    fail_setting("redundancy", ' ', arguments.redundancy, ": expected ", what...);
  };
  if (!traits(arguments.strategy).state)
    expect("strategy ", kStrategies.list_from(Strategy::zero1),
           "; every device has all parameters and moments under ", kStrategies(arguments.strategy));
  if (arguments.mesh.pipe * arguments.mesh.tensor > 1)
    expect("neither pipe nor tensor in the mesh");
  if (arguments.strategy_options.shard_size > 0) expect("no fsdp_shard_size");
  if (arguments.logical_ranks == 0) expect("logical_ranks, as fewer ranks may go on");
}

}  // namespace

void check_arguments(const TrainingArguments& arguments, int ranks) {
  each_argument(arguments, [&](const ArgumentRow& row, const auto& value, const auto&... limits) {
    const bool by_epochs = std::string_view(row.name) == "max_steps" && arguments.max_steps <= 0;
    if (!by_epochs) check_value(row, value, limits...);
  });
  if (arguments.momentum != 0 && arguments.optim != OptimizerKind::sgd)
    fail_setting("momentum", ": only sgd has it; ", kOptimizers(arguments.optim), " has betas");
  if (arguments.num_train_epochs == 0 && arguments.max_steps <= 0)
    fail_setting("num_train_epochs", ": expected more than 0, found 0");
  if (arguments.lr_lambda && (arguments.warmup_steps > 0 || arguments.warmup_ratio > 0))
    fail_setting("lr_lambda", ": it has its own warm-up; expected no warmup_steps or warmup_ratio");
  check_strategies(arguments);
  const bool dp = arguments.strategy == Strategy::dp;
  if (dp == arguments.devices.empty())
    fail_setting("devices", ": ",
                 dp ? "dp needs at least one" : "only dp has several in one process");
  check_mesh(arguments);
  check_logical_ranks(arguments, ranks);
  check_redundancy(arguments);
  if (!traits(arguments.strategy).ranks && ranks > 1)
    fail_setting("strategy", ' ', kStrategies(arguments.strategy), ": expected one rank, found ",
                 ranks, "; several need strategy ", kStrategies.list_from(Strategy::ddp),
                 " (--strategy ddp)");
}

void check_has_use(const TrainingArguments& arguments, const TrainingTask& task) {
  const auto texts_of = [](const TrainingArguments& of) {
    Texts all;
    each_argument(of, [&](const ArgumentRow& row, const auto& value, const auto&... limits) {
      if (row.traits & kForSentences) all.emplace_back(row.name, text_of(value, limits...));
    });
    return all;
  };
  const Texts given = texts_of(arguments), unset = texts_of({});
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i] != unset[i]) fail_setting(given[i].first, ": only tasks of sentences have it");
  if (arguments.shuffle) return;
  const UpdateArguments of_task = task.arguments();
  const auto order = of_task.find(kOrder);
  if (order == of_task.end() || order->second != kAsGiven)
    fail_setting("shuffle", ": expected a task that takes its rows in their order");
}

namespace {

/// Functions are compared by their values, of a thousand steps or more.
std::string text_of(const std::function<double(std::int64_t)>& lr_lambda, std::int64_t steps) {
  std::string values;
  for (std::int64_t step = 0; step < steps; step += std::max<std::int64_t>(1, steps / 1000))
    values += fmt::format("{} ", lr_lambda(step));
  return "lr_lambda of values with SHA-256 " + sha256(values).substr(0, 16);
}

}  // namespace

UpdateArguments update_arguments(const TrainingArguments& arguments, std::int64_t total_steps,
                                 std::int64_t warmup_steps) {
  const auto exact = [](double value) { return fmt::format("{}", value); };
  UpdateArguments all{{"--matmul-precision", str(precision_name(matmul_precision()))},
                      {"--optimizer", arguments.optim == OptimizerKind::sgd
                                          ? "sgd, --momentum " + exact(arguments.momentum)
                                          : str("adamw, beta1 ", exact(arguments.adam_beta1),
                                                ", beta2 ", exact(arguments.adam_beta2), ", eps ",
                                                exact(arguments.adam_epsilon))},
                      {"steps (--epochs, --max-steps)", std::to_string(total_steps)},
                      {"warm-up steps (--warmup)", std::to_string(warmup_steps)}};
  each_argument(arguments, [&](const ArgumentRow& row, const auto& value, const auto&... limits) {
    if (*row.saved) all[row.saved] = text_of(value, limits...);
  });
  if (arguments.ema_decay > 0) all["ema_decay"] = exact(arguments.ema_decay);
  if (arguments.lr_lambda) all["--schedule"] = text_of(arguments.lr_lambda, total_steps);
  if (!arguments.parameter_groups.empty())
    all["parameter groups"] = describe(arguments.parameter_groups);
  // A norm is summed in the order of the units.
  const nn::UnitPolicy& units = arguments.strategy_options.units;
  if (!units.is_default() && arguments.max_grad_norm > 0)
    all["units (--fsdp-units, --fsdp-min-num-params)"] =
        fmt::format("classes {}; elements {}", fmt::join(units.classes, ","), units.min_numel);
  return all;
}

Texts argument_texts(const TrainingArguments& arguments) {
  Texts all;
  each_argument(arguments,
                [&]<class T>(const ArgumentRow& row, const T& value, const auto&... limits) {
                  if (row.traits & kOffCard) return;
                  if constexpr (std::same_as<T, DType>)
                    all.emplace_back("bf16", text_of(value == DType::bf16));
                  else
                    all.emplace_back(row.name, text_of(value, limits...));
                  if ((row.traits & kNoneIs0) && all.back().second == "0")
                    all.back().second = "None";
                });
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
