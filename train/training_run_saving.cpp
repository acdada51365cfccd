// Evaluations, the best of them, and checkpoints.
#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/train/training_run.h"

namespace ringlet::train {

void TrainingRun::check_metric() const {
  std::vector<std::string> names;
  for (const JobEvaluator& evaluator : job_.evaluators) {
    if (evaluator.figures.empty()) return;  // the first evaluation shows its names
    names.insert(names.end(), evaluator.figures.begin(), evaluator.figures.end());
  }
  metric_->check_named(names);
}

void TrainingRun::take_checkpoint() {
  if (writes())
    for (const std::filesystem::path& stray : later_strays(arguments_.resume_from_checkpoint))
      note(stray.string() + ": is no checkpoint (no trainer_state.json) and is passed over");
  const BegunRun begun{state_, total(),
                       [this](std::size_t epoch) { return task_.steps_per_epoch(epoch); },
                       arguments_.load_best_model_at_end, arguments_.output_dir};
  state_ =
      resume(arguments_.resume_from_checkpoint, begun, task_.module(), *optimizer_, job_.group);
  default_generator() = state_.generator;
  call(&TrainerCallback::load_state, state_.callbacks);
}

TrainingRun::Evaluation TrainingRun::evaluate() {
  EvaluationPoint point{state_.step, epoch(), {}, job_.mesh.same_slices};
  if (!arguments_.output_dir.empty() && job_.mesh.tensor.rank() == 0)
    point.output = arguments_.output_dir / "eval";
  EvaluationReport report{point};
  inside_ = ", evaluating";
  for (const JobEvaluator& evaluator : job_.evaluators)
    for (auto& metric : evaluator.evaluate(point)) report.metrics.push_back(std::move(metric));
  inside_ = "";
  task_.module().train();
  if (report.metrics.empty() && !metric_) return {};
  if (metric_) {
    const double value = metric_->value(report.metrics, job_.group);
    report.improvement = metric_->improvement(value, state_.best);
    if (*report.improvement > 0) state_.best = {value, state_.step};
  }
  log({point.step, point.epoch, report.metrics});
  call(&TrainerCallback::on_evaluate, report);
  return {std::move(report.metrics), report.improvement > 0.0};
}

void TrainingRun::load_best() {
  if (state_.best)
    load_checkpoint_model(
        checkpoint_path(arguments_.output_dir / state_.best->output_dir, state_.best->step),
        task_.module());
  else if (writes())
    note("load best model at end: no evaluation had a finite figure, so the last model is kept");
}

void TrainingRun::save() {
  inside_ = ", saving a checkpoint";
  state_.generator = default_generator();
  state_.callbacks.clear();
  for (const TrainerCallback& callback : job_.callbacks) {
    if (!callback.state) continue;
    CallbackState counts = callback.state();
    for (const auto& [name, count] : counts)
      RINGLET_CHECK(count >= 0, "[trainer] a callback's count ", name,
                    ": expected 0 or more, found ", count);
    state_.callbacks.merge(counts);
    RINGLET_CHECK(counts.empty(), "[trainer] two callbacks keep a count ", counts.begin()->first);
  }
  const auto target = checkpoint_path(arguments_.output_dir, state_.step);
  save_checkpoint(target, task_.module(), *optimizer_, state_);
  std::set<std::int64_t> kept{state_.step};
  if (state_.best) kept.insert(state_.best->step);
  if (writes()) rotate_checkpoints(arguments_.output_dir, arguments_.save_total_limit, kept);
  inside_ = "";
  saved_ = state_.step;
  call(&TrainerCallback::on_save, target);
}

}  // namespace ringlet::train
