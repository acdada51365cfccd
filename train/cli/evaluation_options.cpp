#include "ringlet/train/cli/evaluation_options.h"

#include <CLI/CLI.hpp>

#include "ringlet/core/base/error.h"
#include "ringlet/train/best_metric.h"
#include "ringlet/train/cli/option_values.h"

namespace ringlet::cli {
namespace {

using train::EvalStrategy;
using train::SaveStrategy;

/// Option `steps` with another strategy than steps would have no effect.
template <class Strategy, std::size_t n>
void check_interval(const std::optional<Strategy>& strategy, const Names<Strategy, n>& names,
                    const char* steps, std::int64_t interval) {
  if (interval > 0 && strategy && *strategy != Strategy::steps)
    fail_input(steps, ' ', interval, ": needs --", std::string_view(steps).substr(2, 4),
               "-strategy steps, found ", names(*strategy));
}

}  // namespace

void add_evaluation_options(CLI::App& command, EvaluationOptions& options,
                            train::TrainingArguments& a) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  add_choice(command, "--eval-strategy", options.eval_strategy, train::kEvalStrategies,
             "When to evaluate: epoch, the default; steps, with --eval-steps; or no");
  add_number(command, "--eval-steps", a.eval_steps, std::int64_t{0}, kMany,
             "Evaluate every so many steps and at the last, not after each epoch");
  add_number(command, "--eval-batch", a.per_device_eval_batch_size, 1, 1 << 20,
             "Rows of a batch whose loss or labels are evaluated")
      ->capture_default_str();
  add_choice(command, "--save-strategy", options.save_strategy, train::kSaveStrategies,
             "When to save a checkpoint: no, the default; steps, with --save-steps; epoch; or "
             "best, after each evaluation with the best metric so far");
  add_number(command, "--save-steps", a.save_steps, std::int64_t{0}, kMany,
             "A checkpoint every so many steps and at the last");
  add_number(command, "--save-total-limit", a.save_total_limit, 0, 1 << 20,
             "Keep so many checkpoints; the last and the best are never removed; 0: all")
      ->capture_default_str();
  command.add_flag("--load-best-model-at-end", a.load_best_model_at_end,
                   "End with the model of the best evaluation; each best so far is saved");
  command.add_option("--metric-for-best-model", a.metric_for_best_model,
                     "The figure that compares evaluations, as metrics.jsonl names it (loss)");
  command
      .add_option("--greater-is-better", a.greater_is_better,
                  "Whether that figure is better if greater (true unless it ends with loss)")
      ->check(CLI::IsMember({"true", "false"}));
  add_number(command, "--early-stopping-patience", options.early_stopping.patience, std::int64_t{1},
             kMany, "End after so many evaluations in succession that are not better");
  add_number(command, "--early-stopping-threshold", options.early_stopping.threshold, 0.0, 1e300,
             "Better means by more than this")
      ->capture_default_str();
}

void check(const EvaluationOptions& options, const train::TrainingArguments& a) {
  check_interval(options.eval_strategy, train::kEvalStrategies, "--eval-steps", a.eval_steps);
  check_interval(options.save_strategy, train::kSaveStrategies, "--save-steps", a.save_steps);
  if (options.save_strategy == SaveStrategy::steps && a.save_steps == 0)
    fail_input("--save-strategy steps: needs --save-steps");
  const bool compares =
      train::BestMetric::is_wanted(a) || options.save_strategy == SaveStrategy::best;
  const auto needs_metric = [&](const char* option, bool given) {
    if (given && !compares)
      fail_input(option, ": needs --metric-for-best-model or --load-best-model-at-end");
  };
  needs_metric("--early-stopping-patience", options.early_stopping.patience > 0);
  needs_metric("--greater-is-better", a.greater_is_better.has_value());
  if (compares && options.eval_strategy == EvalStrategy::no)
    fail_input("--eval-strategy no: the best evaluation needs steps or epoch");
  if (options.early_stopping.threshold > 0 && options.early_stopping.patience == 0)
    fail_input("--early-stopping-threshold ", options.early_stopping.threshold,
               ": needs --early-stopping-patience");
}

void set_strategies(const EvaluationOptions& options, train::TrainingArguments& arguments) {
  const auto by_steps = [](auto given, std::int64_t steps, auto otherwise) {
    return given.value_or(steps > 0 ? decltype(otherwise)::steps : otherwise);
  };
  arguments.eval_strategy =
      by_steps(options.eval_strategy, arguments.eval_steps, EvalStrategy::epoch);
  arguments.save_strategy = by_steps(options.save_strategy, arguments.save_steps, SaveStrategy::no);
  // Without steps given it has no effect, and no model card names it.
  if (arguments.save_steps == 0) arguments.save_steps = train::TrainingArguments{}.save_steps;
}

}  // namespace ringlet::cli
