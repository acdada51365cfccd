#include "ringlet/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <typeinfo>

#include "ringlet/core/atomic_folder.h"
#include "ringlet/core/device_time.h"
#include "ringlet/core/file.h"
#include "ringlet/core/random.h"
#include "ringlet/core/resource_use.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/sentence_task.h"
#include "ringlet/train/trainer_arguments.h"

namespace ringlet::train {
namespace {

constexpr const char* kMetrics = "metrics.jsonl";

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool every(std::int64_t interval, std::int64_t step) {
  return interval > 0 && step % interval == 0;
}

/// The results of all ranks, in rank order, as one. `late`: behind the step's update.
StepResult together(StepResult mine, const comm::Group& group, bool late) {
  StepResult sum = {.dataset = mine.dataset};
  int rank = 0;
  const std::string bytes(reinterpret_cast<const char*>(&mine), sizeof(mine));
  for (const std::string& each : group.all_gather_bytes(bytes)) {
    StepResult result;
    std::memcpy(&result, each.data(), sizeof(result));
    // The gradients are summed already and no longer say whose was wrong.
    RINGLET_CHECK(std::isfinite(result.loss), "[trainer] the loss of rank ", rank, " is ",
                  result.loss, late ? "" : "; nothing was updated");
    ++rank;
    sum.loss += result.loss;
    sum.rows += result.rows;
    sum.tokens += result.tokens;
    sum.lone_rows += result.lone_rows;
    sum.data_seconds = std::max(sum.data_seconds, result.data_seconds);
  }
  return sum;
}

Device device_of(nn::Module& module) {
  const std::vector<nn::Parameter> parameters = module.parameters();
  return parameters.empty() ? Device{} : parameters.front().device();
}

}  // namespace

/// One call of train(). On a device that runs behind, a step is read while the next is under way,
/// so that the device always has one before it; where the model is looked at, all are.
class Trainer::Run {
 public:
  explicit Run(Trainer& trainer)
      : trainer_(trainer),
        arguments_(trainer.arguments_),
        task_(*trainer.task_),
        device_(device_of(task_.module())),
        late_(runs_behind(device_)),
        optimizer_(make_optimizer(task_.module(), arguments_)),
        guard_(Generator{arguments_.seed, 0, 0}) {
    const std::int64_t warmup = arguments_.warmup_steps > 0
                                    ? arguments_.warmup_steps
                                    : warmup_steps_of(arguments_.warmup_ratio, total());
    schedule_ = Schedule(arguments_.schedule, total(), warmup);
    state_.total_steps = total();
    state_.fingerprint = task_.fingerprint();
    state_.arguments = update_arguments(arguments_, warmup);
    const std::size_t datasets = task_.dataset_names().size();
    if (datasets > 1) state_.dataset_losses.resize(datasets);
    if (!arguments_.resume_from.empty()) resume();
    task_.seek(state_.position);
    if (arguments_.output.empty() || !writes()) return;
    make_folders(arguments_.output);
    remove_unfinished_files();
    metrics_.emplace(arguments_.output / kMetrics, state_.step);
    trim_tables();
  }

  ~Run() { task_.use_graphs(nullptr); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  TrainingResult operator()() {
    task_.module().train();
    optimizer_->zero_grad();
    static_cast<void>(task_.take_loss());  // of a step that threw, in a run before this one
    use_graphs();
    while (state_.step < total() && !stopped()) step();
    if (graphs_) result_.replayed_steps = static_cast<std::int64_t>(graphs_->replayed());
    result_.steps = state_.step;
    if (state_.run_loss.steps > 0) result_.loss = mean(state_.run_loss);
    result_.lone_rows = state_.lone_rows;
    return std::move(result_);
  }

 private:
  /// A step that the device was given and nobody has read.
  struct Given {
    StepReport report;  // without what is to be read
    StepLoss loss;
  };

  /// Where there can be any, the task's steps, update included, are graphs from now on.
  void use_graphs() {
    if (device_.type == DeviceType::cpu) return;
    const auto note = [this](const std::string& line) {
      if (trainer_.callbacks_.on_note) trainer_.callbacks_.on_note(line);
    };
    std::string why = why_no_step_graphs(arguments_);
    if (why.empty()) {
      const StepGraphsOptions options{arguments_.step_graphs, arguments_.dtype, note};
      graphs_ = std::make_shared<StepGraphs>(task_.module(), *optimizer_, device_, options);
      if (task_.use_graphs(graphs_)) return;
      graphs_.reset();
      why = "the task has no packed batches";
    }
    if (arguments_.step_graphs != StepGraphMode::off)
      note("steps are not captured as graphs: " + why);
  }

  std::int64_t total() const { return trainer_.total_steps_; }
  bool writes() const { return trainer_.group_.rank() == 0; }

  // What one rank was told all do.
  void agree_to_stop() {
    if (trainer_.group_.size() > 1) {
      const char mine[] = {trainer_.stopped_ ? '1' : '0', trainer_.save_at_stop_ ? '1' : '0'};
      for (const std::string& each : trainer_.group_.all_gather_bytes(std::string(mine, 2))) {
        trainer_.stopped_ = trainer_.stopped_ || each[0] == '1';
        trainer_.save_at_stop_ = trainer_.save_at_stop_ || each[1] == '1';
      }
    }
    stopping_ = trainer_.stopped_;
  }
  // Told behind the agreement, a rank among others waits for the next one.
  bool stopped() const { return trainer_.group_.size() > 1 ? stopping_ : trainer_.stopped_; }

  void resume() {
    std::filesystem::path folder = arguments_.resume_from;
    if (const auto latest = latest_checkpoint(folder)) folder = *latest;
    check_same_on_all_ranks(folder);
    // First, since what another optimizer keeps is not in the files.
    const TrainerState saved = read_trainer_state(folder);
    if (saved.fingerprint != state_.fingerprint)
      fail_input(folder.string(), ": was trained on ", saved.fingerprint, "; now it would be ",
                 state_.fingerprint);
    const std::size_t datasets = state_.dataset_losses.size(), sums = saved.dataset_losses.size();
    if (sums != datasets)
      fail_input(folder.string(), ": expected losses of ", datasets, " data sets, found ", sums);
    if (saved.total_steps != total())
      fail_input(folder.string(), ": was to run ", saved.total_steps, " steps; now it would be ",
                 total());
    check_same_arguments(folder, saved.arguments, state_.arguments);
    state_ = load_checkpoint(folder, task_.module(), *optimizer_);
    default_generator() = state_.generator;
  }

  // Each rank looks for the latest one, and their folders may be disks of different hosts.
  void check_same_on_all_ranks(const std::filesystem::path& checkpoint) const {
    const std::string mine = checkpoint.filename().string();
    const std::vector<std::string> all = trainer_.group_.all_gather_bytes(mine);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank] != all[0])
        fail_input(checkpoint.parent_path().string(), ": rank 0 would go on from ", all[0],
                   ", rank ", rank, " from ", all[rank]);
  }

  /// What a run that was killed has left there.
  void remove_unfinished_files() const {
    const std::filesystem::path& output = arguments_.output;
    remove_unfinished_checkpoints(output);
    remove_unfinished(output, [](const std::string& name) { return name == kMetrics; });
    remove_unfinished(output / "eval",
                      [](const std::string& name) { return name.ends_with(".csv"); });
  }

  /// What a stopped run evaluated behind its last checkpoint is evaluated again.
  void trim_tables() const {
    for (const std::filesystem::path& path : list_folder(arguments_.output / "eval"))
      if (path.extension() == ".csv") trim_csv(path, state_.step);
  }

  /// One step; an error that leaves it says of which one it is, and on which rank.
  void step() {
    reading_ = state_.step + 1;
    const auto with_place = [&](const Error& error) {
      const comm::Group& group = trainer_.group_;
      return str(error.what(), " (", group.size() > 1 ? str("rank ", group.rank(), ", ") : "",
                 "training step ", reading_, saving_ ? ", saving a checkpoint)" : ")");
    };
    try {
      take_step();
    } catch (const InputError& error) {
      throw InputError(with_place(error));
    } catch (const Error& error) {
      if (typeid(error) != typeid(Error)) throw;  // a callback's own
      throw Error(with_place(error));
    }
  }

  void take_step() {
    if (given_.empty()) start_clock();
    optimizer_->set_lr(arguments_.lr * schedule_.factor(state_.step));
    Given given{{.total_steps = total(), .result = task_.step(), .lr = optimizer_->lr()},
                task_.take_loss()};
    if (!late_) read_loss(given);  // of all ranks, before anything is updated
    update();
    const bool epoch_ends = advance(), last = state_.step == total();
    given.report.step = state_.step;
    given.report.epoch = epoch();
    given_.push_back(std::move(given));
    const bool evaluates = every(arguments_.eval_steps, state_.step) ||
                           (arguments_.eval_each_epoch && (epoch_ends || last));
    read_steps(late_ && !evaluates && !epoch_ends && !last ? 1 : 0);
    std::optional<Metrics> found;
    if (evaluates) found = evaluate();
    if (epoch_ends) finish_epoch(found.value_or(Metrics{}));
    agree_to_stop();
    const bool saves = every(arguments_.save_steps, state_.step) ||
                       (arguments_.save_steps > 0 && last) || trainer_.save_at_stop_;
    if (saves || stopped()) read_steps(0);
    if (saves) save();
  }

  void update() {
    if (!graphs_) {
      optimizer_->prepare_step();
      optimizer_->launch_step();
    }
    optimizer_->end_step();
    if (!late_) optimizer_->check_steps();
    optimizer_->zero_grad();
  }

  /// Waits for the steps that the device was given, but for the `late` latest, and tells of them.
  void read_steps(std::size_t late) {
    while (given_.size() > late) {
      Given given = std::move(given_.front());
      given_.pop_front();
      StepReport& report = given.report;
      reading_ = report.step;
      if (late_) read_loss(given);
      optimizer_->check_steps(given_.size());
      report.grad_norm = optimizer_->grad_norm();
      account(report.result);
      if (trainer_.callbacks_.on_step) trainer_.callbacks_.on_step(report);
      const bool last = report.step == total();
      if (every(arguments_.logging_steps, report.step) || (arguments_.logging_steps > 0 && last))
        log(report);
    }
    reading_ = state_.step;
  }

  void read_loss(Given& given) {
    StepResult& result = given.report.result;
    result.loss = given.loss.value();
    if (trainer_.group_.size() > 1) result = together(result, trainer_.group_, late_);
  }

  /// True at the end of an epoch.
  bool advance() {
    ++state_.step;
    Position& at = state_.position;
    if (++at.step < task_.steps_per_epoch(at.epoch)) return false;
    at = {at.epoch + 1, 0};
    return true;
  }

  double epoch() const {
    const Position& at = state_.position;
    return static_cast<double>(at.epoch) +
           static_cast<double>(at.step) / static_cast<double>(task_.steps_per_epoch(at.epoch));
  }

  void start_clock() {
    began_ = now();
    used_before_ = resource_use();
  }

  // What has passed since the clock was started, or the step before was read, is this one's.
  void account(const StepResult& result) {
    const double seconds = now() - began_;
    const ResourceUse used = resource_use() - used_before_;
    start_clock();
    result_.seconds += seconds;
    result_.data_seconds += result.data_seconds;
    result_.rows += result.rows;
    result_.tokens += result.tokens;
    state_.lone_rows += result.lone_rows;
    for (auto* loss : {&state_.loss, &state_.epoch_loss, &state_.run_loss}) add(*loss, result.loss);
    if (!state_.dataset_losses.empty()) add(state_.dataset_losses[result.dataset], result.loss);
    logged_.seconds += seconds;
    logged_.rows += result.rows;
    logged_.tokens += result.tokens;
    ++logged_.steps;
    logged_.data_seconds += result.data_seconds;
    logged_.used += used;
  }

  static void add(TrainerState::LossSum& loss, double value) {
    loss.sum += value;
    ++loss.steps;
  }
  static double mean(const TrainerState::LossSum& loss) {
    return loss.sum / static_cast<double>(loss.steps);
  }

  void log(const StepReport& at) {
    const auto rate = [&](std::int64_t n) {
      return logged_.seconds > 0 ? static_cast<double>(n) / logged_.seconds : 0;
    };
    Metrics metrics{{"loss", mean(state_.loss)}};
    for (std::size_t i = 0; i < state_.dataset_losses.size(); ++i)
      if (state_.dataset_losses[i].steps > 0)
        metrics.emplace_back("loss_" + task_.dataset_names()[i], mean(state_.dataset_losses[i]));
    metrics.insert(metrics.end(), {{"lr", at.lr},
                                   {"grad_norm", at.grad_norm},
                                   {"pairs_per_s", rate(logged_.rows)},
                                   {"tokens_per_s", rate(logged_.tokens)}});
    const auto a_step = [&](auto n) { return static_cast<double>(n) / logged_.steps; };
    metrics.insert(metrics.end(), {{"data_wait_ms", 1e3 * a_step(logged_.data_seconds)},
                                   {"page_faults", a_step(logged_.used.page_faults)},
                                   {"mapped_bytes", a_step(logged_.used.mapped_bytes)},
                                   {"threads_started", a_step(logged_.used.threads_started)}});
    if (metrics_) metrics_->write(at.step, at.epoch, metrics);
    state_.loss = {};
    for (TrainerState::LossSum& loss : state_.dataset_losses) loss = {};
    logged_ = {};
  }

  Metrics evaluate() {
    EvaluationPoint point{state_.step, epoch(), {}, trainer_.group_};
    if (!arguments_.output.empty()) point.output = arguments_.output / "eval";
    Metrics all;
    for (const EvaluateFunction& evaluate : trainer_.evaluators_)
      for (auto& metric : evaluate(point)) all.push_back(std::move(metric));
    task_.module().train();
    if (all.empty()) return all;
    if (metrics_) metrics_->write(point.step, point.epoch, all);
    if (trainer_.callbacks_.on_evaluate) trainer_.callbacks_.on_evaluate(point, all);
    return all;
  }

  void finish_epoch(Metrics metrics) {
    result_.epochs.push_back({state_.position.epoch, mean(state_.epoch_loss), std::move(metrics)});
    state_.epoch_loss = {};
  }

  void save() {
    saving_ = true;
    state_.generator = default_generator();
    const auto target = checkpoint_path(arguments_.output, state_.step);
    save_checkpoint(target, task_.module(), *optimizer_, state_);
    if (writes()) rotate_checkpoints(arguments_.output, arguments_.save_total_limit);
    saving_ = false;
    if (trainer_.callbacks_.on_save) trainer_.callbacks_.on_save(target);
  }

  Trainer& trainer_;
  const TrainingArguments& arguments_;
  TrainingTask& task_;
  Device device_;
  bool late_;  // steps are read behind the next
  std::unique_ptr<Optimizer> optimizer_;
  std::shared_ptr<StepGraphs> graphs_;  // null: the task's steps leave the update to us
  GeneratorGuard guard_;
  Schedule schedule_;
  TrainerState state_;
  std::optional<MetricsWriter> metrics_;
  TrainingResult result_;
  std::deque<Given> given_;    // oldest first
  std::int64_t reading_ = 0;   // the step that an error is of
  double began_ = 0;           // the clock's start
  ResourceUse used_before_{};  // at that time
  bool stopping_ = false;
  bool saving_ = false;
  struct {
    double seconds = 0;
    std::int64_t rows = 0, tokens = 0;
    double steps = 0, data_seconds = 0;
    ResourceUse used;
  } logged_;
};

Trainer::Trainer(std::unique_ptr<TrainingTask> task, TrainingArguments arguments, comm::Group group)
    : task_(std::move(task)), arguments_(std::move(arguments)), group_(std::move(group)) {
  check_arguments(arguments_, group_);
  set_compute_dtype(task_->module(), arguments_.dtype);
  total_steps_ = arguments_.max_steps;
  if (total_steps_ == 0)
    for (std::size_t epoch = 0; epoch < arguments_.epochs; ++epoch)
      total_steps_ += static_cast<std::int64_t>(task_->steps_per_epoch(epoch));
  check_memory_limit(arguments_.strategy, task_->module(), group_.size(), moments_of(arguments_));
  strategy_ = AttachedStrategy(arguments_.strategy, task_->module(), group_, arguments_.devices,
                               arguments_.dtype, arguments_.strategy_options);
  task_->set_pause(strategy_.paused());
}

Trainer::Trainer(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
                 TrainingArguments arguments, comm::Group group)
    : Trainer(std::make_unique<SentenceTask>(loss, std::move(datasets), tokenizer,
                                             loader_options(arguments, group)),
              arguments, group) {}

void Trainer::stop(bool save) {
  RINGLET_CHECK(!save || !arguments_.output.empty(),
                "[trainer] there is no output folder for a checkpoint");
  stopped_ = true;
  save_at_stop_ = save_at_stop_ || save;
}

TrainingResult Trainer::train() {
  stopped_ = save_at_stop_ = false;
  return Run(*this)();
}

}  // namespace ringlet::train
