#include "ringlet/train/training_run.h"

#include <set>
#include <typeinfo>

#include "ringlet/comm/environment.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/nn/place.h"
#include "ringlet/train/argument_table.h"
#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::train {
namespace {

/// Whether `step` is a multiple of the interval; 0: never.
bool every(std::int64_t interval, std::int64_t step) {
  return interval > 0 && step % interval == 0;
}

bool evaluates_at(const StepEnd& at, const TrainingArguments& arguments) {
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

/// `is_best`: an evaluation there has found the best metric so far.
bool saves_at(const StepEnd& at, const TrainingArguments& arguments, bool is_best) {
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

}  // namespace

TrainingRun::TrainingRun(TrainingJob& job)
    : job_(job),
      arguments_(job.arguments),
      task_(*job.task),
      device_(task_.module().device()),
      late_(is_asynchronous(device_)),
      optimizer_(make_optimizer(task_.module(), arguments_)),
      guard_(RandomGenerator{arguments_.seed, 0, 0}) {
  const std::int64_t warmup = arguments_.warmup_steps > 0
                                  ? arguments_.warmup_steps
                                  : warmup_steps_of(arguments_.warmup_ratio, total());
  schedule_ = arguments_.lr_lambda ? Schedule(arguments_.lr_lambda)
                                   : Schedule(arguments_.lr_scheduler_type, total(), warmup);
  state_.generator = default_generator();
  state_.arguments = update_arguments(arguments_, total(), warmup);
  state_.arguments.merge(task_.arguments());
  if (const std::size_t datasets = task_.dataset_names().size(); datasets > 1) {
    state_.dataset_losses.resize(datasets);
    state_.dataset_run_losses.resize(datasets);
  }
  if (compares_evaluations(arguments_)) {
    if (job_.evaluators.empty())
      fail_setting("metric_for_best_model", ": expected an evaluator or an evaluation data set");
    metric_.emplace(arguments_.metric_for_best_model, arguments_.greater_is_better);
    check_metric();
    state_.arguments["--metric-for-best-model"] = metric_->describe();
  }
  if (arguments_.redundancy > 0 && late_)
    fail_setting("redundancy", ' ', arguments_.redundancy, ": expected CPUs, found ", device_);
  if (job_.snapshot) {
    take_snapshot(*job_.snapshot);  // if a peer ends meanwhile, the next world needs it
    job_.snapshot.reset();
  } else if (!arguments_.resume_from_checkpoint.empty()) {
    take_checkpoint();
  }
  task_.seek(state_.position);
  if (arguments_.output_dir.empty() || !writes()) return;
  const bool evaluated = ending_ != StepEnding::evaluation;
  prepare_output(arguments_.output_dir, evaluated ? state_.step : state_.step - 1);
  metrics_.emplace(arguments_.output_dir / kMetrics, state_.step, arguments_.tensorboard,
                   evaluated);
  if (arguments_.audit_steps > 0)
    audit_.emplace(arguments_.output_dir / kAudit, arguments_.audit_steps, state_.arguments,
                   state_.step);
}

TrainingRun::~TrainingRun() { task_.use_graphs(nullptr); }

TrainingResult TrainingRun::operator()() {
  task_.module().train();
  optimizer_->zero_grad();
  static_cast<void>(task_.take_loss());  // of a step that threw in an earlier run
  use_graphs();
  copy_shard();
  const bool trained = ending_ == StepEnding::trained;  // in an earlier world
  if (!trained) audit();
  result_.audit_seconds = 0;  // from here on it is a share of the steps' time
  call(&TrainerCallback::on_train_begin, arguments_);
  note_idle_stages();
  agree_to_stop();  // as callbacks' loaded counts may request
  if (ending_ < StepEnding::done)
    end_step({state_.step, state_.position.step == 0, state_.step == total()});
  while (!trained && state_.step < total() && !stopped()) step();
  if (in_epoch_) end_epoch(state_.position.epoch + 1);
  agree_to_stop();  // requests since the last step's
  if (trained) job_.save_at_stop = false;
  if (job_.save_at_stop && saved_ != state_.step) save();
  ending_ = StepEnding::trained;
  if (job_.group.size() > 1 && job_.group.options().elastic) job_.left = snapshot();
  if (arguments_.load_best_model_at_end) load_best();
  optimizer_->swap_ema();
  if (graphs_) result_.replayed_steps = static_cast<std::int64_t>(graphs_->replayed());
  result_.steps = state_.step;
  result_.loss = sums_.run_loss();
  result_.dataset_losses = sums_.dataset_run_losses(task_.dataset_names());
  result_.lone_rows = state_.lone_rows;
  result_.saved_at_stop = stopped() && job_.save_at_stop;
  result_.best = state_.best;
  call(&TrainerCallback::on_train_end, result_);
  return std::move(result_);
}

void TrainingRun::use_graphs() {
  if (device_.type == DeviceType::cpu) return;
  std::string why = why_no_step_graphs(arguments_);
  if (nn::on_several_devices(task_.module())) why = "parameters are on several devices";
  if (arguments_.strategy != Strategy::none && job_.mesh.same_rows.size() > 1)
    why = "ranks of a mesh agree along its data axis alone";
  if (why.empty()) {
    const StepGraphsOptions options{arguments_.step_graphs, arguments_.dtype,
                                    [this](const std::string& line) {
                                      if (writes()) note(line);
                                    }};
    graphs_ = std::make_shared<StepGraphs>(task_.module(), *optimizer_, device_, options);
    if (task_.use_graphs(graphs_)) return;
    graphs_.reset();
    why = "the task has no packed batches";
  }
  if (arguments_.step_graphs != StepGraphMode::off && writes())
    note("steps are not captured as graphs: " + why);
}

void TrainingRun::note_idle_stages() const {
  const auto micro_batches = static_cast<std::int64_t>(arguments_.gradient_accumulation_steps);
  const std::int64_t ranks = job_.mesh.pipe.size();
  if (micro_batches < ranks && writes())
    note(str("gradient accumulation of ", micro_batches, ": the ", ranks,
             " ranks of a pipeline wait less with ", ranks, " micro-batches or more"));
}

void TrainingRun::agree_to_stop() {
  // The larger world goes on from a snapshot or a checkpoint.
  const bool may_grow = has_snapshot() || !arguments_.output_dir.empty();
  grows_ = writes() && may_grow && comm::rank_waits(job_.group);
  if (job_.group.size() > 1) {
    const char mine[] = {job_.stopped ? '1' : '0', job_.save_at_stop ? '1' : '0',
                         grows_ ? '1' : '0'};
    for (const std::string& each : job_.group.all_gather_bytes(std::string(mine, 3))) {
      job_.stopped = job_.stopped || each[0] == '1';
      job_.save_at_stop = job_.save_at_stop || each[1] == '1';
      grows_ = grows_ || each[2] == '1';
    }
  }
  stopping_ = job_.stopped;
  // All ranks are here, and have the latest copies.
  if (copies_.size() > 1) copies_.erase(copies_.begin(), copies_.end() - 1);
}

// With several ranks, a stop after the agreement takes effect at the next one.
bool TrainingRun::stopped() const { return job_.group.size() > 1 ? stopping_ : job_.stopped; }

void TrainingRun::step() {
  reading_ = state_.step + 1;
  const auto with_place = [&](const Error& error) {
    const comm::Group& group = job_.group;
    const auto micro_batch = task_.micro_batch();
    return str(error.what(), " (", group.size() > 1 ? str("rank ", group.rank(), ", ") : "",
               "training step ", reading_, inside_,
               micro_batch ? str(", micro-batch ", *micro_batch) : "", ")");
  };
  try {
    take_step();
  } catch (const SettingError& error) {
    throw SettingError(error.setting, with_place(error).substr(error.setting.size()));
  } catch (const InputError& error) {
    throw InputError(with_place(error));
  } catch (const Error& error) {
    if (typeid(error) != typeid(Error)) throw;  // a callback's own type
    throw Error(with_place(error));
  }
}

void TrainingRun::take_step() {
  if (!std::exchange(in_epoch_, true))
    call(&TrainerCallback::on_epoch_begin, state_.position.epoch + 1);
  if (enqueued_.empty()) sums_.start_clock();
  optimizer_->set_lr_factor(schedule_.factor(state_.step));
  EnqueuedStep enqueued{{.total_steps = total(), .result = task_.step(), .lr = optimizer_->lr()},
                        task_.take_loss()};
  if (!late_) read_loss(enqueued);  // of all ranks, before anything is updated
  refresh_copies();
  task_.update(*optimizer_);
  if (!late_) optimizer_->check_steps();
  optimizer_->zero_grad();
  const bool epoch_ends = advance(), last = state_.step == total();
  enqueued.report.step = state_.step;
  enqueued.report.epoch = epoch();
  enqueued_.push_back(std::move(enqueued));
  const StepEnd end{state_.step, epoch_ends, last};
  read_steps(late_ && !evaluates_at(end, arguments_) && !epoch_ends && !last ? 1 : 0);
  ending_ = StepEnding::evaluation;
  state_.generator = default_generator();
  copy_shard();
  end_step(end);
}

void TrainingRun::end_step(const StepEnd& end) {
  if (ending_ == StepEnding::evaluation) {
    Metrics found;
    if (evaluates_at(end, arguments_)) found = evaluate();
    if (end.ends_epoch)
      result_.epochs.push_back({state_.position.epoch, sums_.take_epoch_loss(), std::move(found)});
  }
  ending_ = StepEnding::saving;
  agree_to_stop();
  const bool is_best = state_.best && state_.best->step == end.step;
  const bool grows = grows_ && !end.ends_run && !stopped();
  const bool saves =
      job_.save_at_stop || saves_at(end, arguments_, is_best) || (grows && !has_snapshot());
  const bool audits = every(arguments_.audit_steps, end.step) || end.ends_run;
  if (saves || audits || stopped()) read_steps(0);
  if (saves)
    save();
  else if (audits)
    audit();
  ending_ = StepEnding::done;
  if (end.ends_epoch) end_epoch(state_.position.epoch);
  if (grows) throw comm::WorldGrows();
}

void TrainingRun::read_steps(std::size_t late) {
  while (enqueued_.size() > late) {
    EnqueuedStep enqueued = std::move(enqueued_.front());
    enqueued_.pop_front();
    reading_ = enqueued.report.step;
    if (late_) read_loss(enqueued);
    optimizer_->check_steps(enqueued_.size());
    enqueued.report.grad_norm = optimizer_->grad_norm();
    report(enqueued.report);
  }
  reading_ = state_.step;
}

void TrainingRun::read_loss(EnqueuedStep& enqueued) {
  StepResult& result = enqueued.report.result;
  result.loss = enqueued.loss.value();
  if (job_.group.size() > 1)
    result =
        combined(result, enqueued.loss.by_logical_rank(), job_.group.rank(), job_.mesh.data, late_);
}

void TrainingRun::report(const StepReport& report) {
  sums_.add(report.result);
  call(&TrainerCallback::on_step_end, report);
  const bool last = report.step == total();
  if (!every(arguments_.logging_steps, report.step) && !(arguments_.logging_steps > 0 && last))
    return;
  log({report.step, report.epoch,
       sums_.take_metrics(task_.dataset_names(), report.lr, report.grad_norm)});
}

void TrainingRun::log(const LogReport& report) {
  call(&TrainerCallback::on_log, report);
  if (metrics_) metrics_->write(report.step, report.epoch, report.metrics);
}

void TrainingRun::end_epoch(std::size_t epoch) {
  in_epoch_ = false;
  call(&TrainerCallback::on_epoch_end, epoch);
}

bool TrainingRun::advance() {
  ++state_.step;
  Position& at = state_.position;
  if (++at.step < task_.steps_per_epoch(at.epoch)) return false;
  at = {at.epoch + 1, 0};
  return true;
}

double TrainingRun::epoch() const {
  const Position& at = state_.position;
  return static_cast<double>(at.epoch) +
         static_cast<double>(at.step) / static_cast<double>(task_.steps_per_epoch(at.epoch));
}

// ---- evaluations, the best of them, and checkpoints ----

void TrainingRun::check_metric() const {
  std::vector<std::string> names;
  for (const auto& evaluator : job_.evaluators) {
    if (evaluator.figures.empty()) return;  // the first evaluation shows its names
    names.insert(names.end(), evaluator.figures.begin(), evaluator.figures.end());
  }
  metric_->check_named(names);
}

void TrainingRun::take_checkpoint() {
  if (writes())
    for (const std::filesystem::path& stray : later_strays(arguments_.resume_from_checkpoint))
      note(stray.string() + ": is no checkpoint (no trainer_state.json) and is passed over");
  state_ = resume(arguments_.resume_from_checkpoint,
                  {state_.arguments, arguments_.load_best_model_at_end, arguments_.output_dir},
                  task_.module(), *optimizer_, job_.group);
  default_generator() = state_.generator;
  call(&TrainerCallback::load_state, state_.callbacks);
}

void TrainingRun::take_snapshot(Snapshot& snapshot) {
  state_ = snapshot.state;
  ending_ = snapshot.ending;
  if (snapshot.holders.empty())
    optimizer_->load_state(snapshot.moments);
  else
    load_shards(snapshot, task_.module(), *optimizer_, job_.group);
  // Only these count from here on; the others would stay beside those of the new ranks.
  std::erase_if(snapshot.copies, [&](const ShardCopies& copies) {
    return copies.state.step != state_.step || copies.shards != std::ssize(snapshot.holders);
  });
  copies_ = std::move(snapshot.copies);
  default_generator() = state_.generator;
  call(&TrainerCallback::load_state, state_.callbacks);
}

bool TrainingRun::has_snapshot() const {
  const bool whole = arguments_.strategy != Strategy::dp && !traits(arguments_.strategy).state;
  return !late_ && (whole || arguments_.redundancy > 0) && job_.mesh.same_rows.size() == 1;
}

void TrainingRun::copy_shard() {
  if (arguments_.redundancy == 0 || job_.group.size() == 1) return copies_.clear();
  copy_shards(copies_, {state_, ending_}, task_.module(), *optimizer_, job_.group);
}

void TrainingRun::refresh_copies() {
  if (copies_.empty() || copies_.back().state.step != state_.step) return;
  copies_.back().state = state_;
  copies_.back().state.callbacks = callback_state();
  copies_.back().ending = ending_;
}

std::optional<Snapshot> TrainingRun::snapshot() {
  if (!has_snapshot()) return std::nullopt;
  if (arguments_.redundancy > 0) {
    if (job_.group.size() == 1)  // no peer's end has come between two updates
      copy_shards(copies_, {state_, ending_}, task_.module(), *optimizer_, job_.group);
    refresh_copies();
    if (copies_.empty()) return std::nullopt;
    return Snapshot{.state = state_, .ending = ending_, .copies = copies_};
  }
  Snapshot snapshot{state_, optimizer_->state(), ending_};
  snapshot.state.callbacks = callback_state();
  // At the end the average changes places with the parameters, and must not do so again.
  for (auto& parameter : snapshot.moments)
    if (arguments_.ema_decay > 0 && !parameter.moments.empty())
      parameter.moments.back().second = parameter.moments.back().second.clone();
  return snapshot;
}

Metrics TrainingRun::evaluate() {
  EvaluationPoint point{state_.step, epoch(), {}, job_.mesh.same_slices};
  if (!arguments_.output_dir.empty() && job_.mesh.tensor.rank() == 0)
    point.output = arguments_.output_dir / "eval";
  EvaluationReport report{point};
  inside_ = ", evaluating";
  {
    const EmaScope average(*optimizer_);
    for (const auto& evaluator : job_.evaluators)
      for (auto& metric : evaluator.evaluate(point)) report.metrics.push_back(std::move(metric));
  }
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
  return std::move(report.metrics);
}

void TrainingRun::load_best() {
  if (state_.best) {
    const std::filesystem::path best =
        checkpoint_path(arguments_.output_dir / state_.best->output_dir, state_.best->step);
    if (arguments_.ema_decay > 0)
      load_checkpoint(best, task_.module(), *optimizer_);  // the average is the optimizer's
    else
      load_checkpoint_model(best, task_.module());
  } else if (writes()) {
    note("load best model at end: no evaluation had a finite figure, so the last model is kept");
  }
}

void TrainingRun::save() {
  inside_ = ", saving a checkpoint";
  state_.generator = default_generator();
  state_.callbacks = callback_state();
  const auto target = checkpoint_path(arguments_.output_dir, state_.step);
  save_checkpoint(target, task_.module(), *optimizer_, state_);
  audit();
  if (audit_) audit_->add_files(state_.step, target);
  std::set<std::int64_t> kept{state_.step};
  if (state_.best) kept.insert(state_.best->step);
  if (writes()) rotate_checkpoints(arguments_.output_dir, arguments_.save_total_limit, kept);
  inside_ = "";
  saved_ = state_.step;
  call(&TrainerCallback::on_save, target);
}

CallbackState TrainingRun::callback_state() const {
  CallbackState state;
  for (const TrainerCallback& callback : job_.callbacks) {
    if (!callback.state) continue;
    CallbackState counts = callback.state();
    for (const auto& [name, count] : counts)
      RINGLET_CHECK(count >= 0, "[trainer] a callback's count ", name,
                    ": expected 0 or more, found ", count);
    state.merge(counts);
    RINGLET_CHECK(counts.empty(), "[trainer] two callbacks keep a count ", counts.begin()->first);
  }
  return state;
}

void TrainingRun::audit() {
  if (arguments_.audit_steps == 0 || arguments_.output_dir.empty()) return;
  const double began = steady_seconds();
  const std::string state = state_digest(task_.module(), *optimizer_, job_.group);
  if (audit_) audit_->add_state(state_, state, task_);
  result_.audit_seconds += steady_seconds() - began;
}

}  // namespace ringlet::train
