#include "ringlet/train/milestone.h"

namespace ringlet::train {

bool evaluates_at(const Milestone& at, const TrainingArguments& arguments) {
  switch (arguments.eval_strategy) {
    case EvalStrategy::steps:
      return every(eval_interval(arguments), at.step) || at.ends_run;
    case EvalStrategy::epoch:
      return at.ends_epoch || at.ends_run;
    case EvalStrategy::no:
      break;
  }
  return false;
}

bool saves_at(const Milestone& at, const TrainingArguments& arguments, bool is_best) {
  if (arguments.output_dir.empty()) return false;
  if (is_best && arguments.load_best_model_at_end) return true;
  switch (arguments.save_strategy) {
    case SaveStrategy::steps:
      return every(arguments.save_steps, at.step) || at.ends_run;
    case SaveStrategy::epoch:
      return at.ends_epoch || at.ends_run;
    case SaveStrategy::best:
      return is_best;
    case SaveStrategy::no:
      break;
  }
  return false;
}

}  // namespace ringlet::train
