#include "runner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "emulated_counts.h"
#include "ringlet/core/cpu/resource_use.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/cuda/activity.h"
#include "ringlet/models/batch.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/optimizer/update_rules.h"
#include "ringlet/train/parallel/model/attached_strategy.h"
#include "ringlet/train/parallel/model/sentence_pipeline.h"
#include "ringlet/train/parallel/model/tensor_parallel.h"
#include "ringlet/train/report/timeline.h"
#include "ringlet/train/step/sentence_task.h"
#include "ringlet/train/step/step_graphs.h"
#include "source.h"

namespace ringlet::bench {
namespace {

// The process's peak of resident memory.
std::size_t peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  return 0;
}

// The lists of processors that the threads of this process may run on.
std::vector<std::string> processors_in_use() {
  std::set<std::string> all;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line, key = "Cpus_allowed_list:\t"; std::getline(status, line);)
      if (line.starts_with(key)) all.insert(line.substr(key.size()));
  }
  return {all.begin(), all.end()};
}

/// A step of a pipeline has the rows of a step of DDP, in so many parts for each stage.
constexpr int kMicroBatchesPerStage = 4;

/// A rank's share of each global batch.
Share share_of(const Plan& plan, const comm::Group& group) {
  if (plan.same_rows()) return {0, 1, plan.devices};
  return {group.rank(), group.size(), plan.devices / group.size(),
          train::traits(plan.strategy).parameters};
}

void print_note(const std::string& line) { std::cerr << line << std::endl; }

/// One rank of one row: a model, its data and a strategy, run and timed by steps.
class Runner {
 public:
  /// `options` outlive it.
  Runner(const ThroughputOptions& options, const Plan& plan, const comm::Group& group)
      : options_(options),
        plan_(plan),
        group_(group),
        device_(options.device_of(group.rank())),
        source_(make_source(options, share_of(plan, group))),
        task_(*this, source_),
        strategy_(cli::of_option("--strategy " + plan.name, [&] { return attach(); })),
        optimizer_(*source_.loss, {.lr = 2e-5, .weight_decay = 0.01, .max_grad_norm = 1.0}) {
    source_.model.transformer()->set_compute_dtype(options.dtype);
    source_.model.set_forward_per_column(options.per_column());
    // Speed-ups are relative to one device's best, whether or not the ranks' steps are captured.
    const train::StrategyTraits& traits = train::traits(plan.strategy);
    const bool captures =
        plan.devices == 1 || (traits.ranks && !traits.gradients && plan.together &&
                              (comm::is_in_kernel(group.algorithm(device_)) ||
                               group.transport(device_) == comm::TransportKind::nccl));
    if (device_.type == DeviceType::cpu || options.by_op() || !captures || several()) return;
    graphs_ = std::make_shared<train::StepGraphs>(
        *source_.loss, optimizer_, device_,
        train::StepGraphsOptions{options.step_graphs, options.dtype,
                                 [first = group.rank() == 0](const std::string& line) {
                                   if (first) print_note(line);
                                 }});
    task_.use_graphs(graphs_);
  }

  /// After the warm-up. Error if a loss or a gradient was NaN or infinite.
  Measurement measure(int idle_steps) {
    for (int i = 0; i < options_.warmup; ++i) {
      last_warm_up_ = task_.position();
      step(false);
    }
    Measurement mine = time_steps(false);
    // A step that maps memory takes longer. Every row times the same batches.
    constexpr int kMost = 2;
    for (int i = 0; options_.warmup > 0 && i < kMost && any_mapped(mine); ++i)
      mine = time_steps(true);
    if (idle_steps > 0) mine.idle = record_idle(idle_steps);
    return mine;
  }

 private:
  /// When the device completed each phase; the first is the start. Null inside a graph.
  using Times = std::array<std::unique_ptr<DeviceTime>, kPhases.size() + 1>;
  struct TimedStep {
    Times times;
    bool replayed;
  };
  /// Counters since this rank began.
  struct Counts {
    comm::GroupStats group;
    double exchanged;
    ResourceUse used;
  };

  /// The trainer's step, with the times of its phases.
  class TimedTask final : public train::SentenceTask {
   public:
    TimedTask(Runner& runner, Source& source)
        : SentenceTask(*source.loss, std::move(source.loader), source.model.tokenizer(),
                       [this](const models::PackedBatch& batch) { return forward(batch); }),
          runner_(runner),
          loss_(*source.loss) {}
    train::Position position() const { return loader().position(); }

   private:
    Tensor run() override {
      if (loader().share().counts) runner_.count_batch();
      if (!runner_.now_[1]) runner_.now_[1] = device_time(runner_.device_);
      return SentenceTask::run();
    }
    Variable forward(const models::PackedBatch& batch) const {
      // Perhaps while it is captured; the phases of several batches are not timed.
      if (runner_.graphs_ || runner_.several()) return loss_(batch);
      const models::PackedBatch placed = loss_.placed(batch);
      runner_.now_[1] = device_time(runner_.device_);
      Variable value = loss_(placed);
      runner_.now_[2] = device_time(runner_.device_);
      return value;
    }
    Runner& runner_;
    models::Loss& loss_;
  };

  train::AttachedStrategy attach() {
    if (plan_.slices > 1) {
      models::Transformer& transformer = *source_.model.transformer();
      train::TensorParallel(transformer, group_, train::encoder_tensor_plan(transformer.config()));
    }
    if (plan_.stages > 1) {
      const train::Mesh mesh = train::make_mesh(group_, {.data = 1, .pipe = plan_.stages});
      pipeline_ = std::make_shared<train::SentencePipeline>(
          *source_.loss, std::max<std::size_t>(1, options_.data.size()),
          kMicroBatchesPerStage * plan_.stages, options_.pipeline, mesh, options_.dtype,
          nn::UnitPolicy());
    }
    nn::Module& local = pipeline_ ? pipeline_->stage() : *source_.loss;
    std::vector<Device> replicas;
    for (int i = 0; plan_.strategy == train::Strategy::dp && i < plan_.devices; ++i)
      replicas.push_back(device_of_rank(options_.device, i));
    train::AttachedStrategy strategy(
        plan_.strategy, local, plan_.together && !plan_.same_rows() ? group_ : comm::Group(),
        replicas, options_.dtype,
        {.logical_ranks = options_.logical_ranks, .timed = true, .on_note = print_note});
    if (pipeline_) {
      pipeline_->start(strategy);
      task_.use_pipeline(pipeline_);
    }
    return strategy;
  }

  /// Whether some device has several batches of a step.
  bool several() const { return options_.logical_ranks > group_.size(); }

  /// `again`: with the batch of the previous step.
  Times step(bool again) {
    now_ = {};
    now_[0] = device_time(device_);
    again_ = again;
    if (again && !several()) {
      task_.run_again();
    } else {
      if (again) task_.seek(at_);
      at_ = task_.position();
      task_.step();
      stepped_ = true;
    }
    if (now_[2]) now_[3] = device_time(device_);
    task_.update(optimizer_);
    optimizer_.zero_grad();
    optimizer_.check_steps(/*late=*/1);  // while a device is at this one
    now_[4] = device_time(device_);
    check_loss();
    loss_ = task_.take_loss();
    return std::move(now_);
  }

  /// The loss of the latest step is finite.
  void check_loss() {
    const double loss = loss_.value();
    RINGLET_CHECK(std::isfinite(loss), "the loss is ", loss);
  }

  void count_batch() {
    const models::PackedBatch& batch = task_.batch();
    const std::int64_t filled = device_.type == DeviceType::cpu ? 0 : models::bucket_of(batch);
    // In the first backward there are no moments.
    if (stepped_) most_tokens_ = std::max({most_tokens_, batch.tokens(), filled});
    const bool counted_by_rank_0 = plan_.same_rows() && group_.rank() > 0;
    if (again_ || counted_by_rank_0) return;
    sum_.real_tokens += static_cast<double>(batch.real_tokens);
    sum_.padded_tokens += static_cast<double>(batch.padded_tokens);
    sum_.pairs += static_cast<double>(batch.rows);
    sum_.sentences += static_cast<double>(batch.sentences());
  }

  /// `again`: returns to the first timed step, by a step that is not timed.
  Measurement time_steps(bool again) {
    group_.barrier();
    if (again) {
      optimizer_.check_steps();
      task_.seek(last_warm_up_);  // the step before, in which a loader's thread starts anew
      step(false);
    }
    std::unique_ptr<StepProfile> profile;
    if (options_.profile)
      profile = is_emulated(options_.device)
                    ? emulated_profile(options_.device, static_cast<double>(options_.batch))
                    : timed_profile(options_.device);
    std::optional<train::Timeline> timeline;
    if (!options_.timeline.empty()) timeline.emplace(device_, group_.rank());
    optimizer_.check_steps();
    sum_ = {};
    timed_.clear();
    const Counts before = counts();
    for (int i = 0; i < options_.steps; ++i) timed_step(profile.get());
    Measurement mine = measured(before);
    if (profile && group_.rank() == 0) {
      mine.times = profile->per_step();
      mine.times.step_ms = mean(mine.step_ms);
    }
    if (timeline) mine.timeline = {timeline->spans()};
    return mine;
  }

  void timed_step(StepProfile* profile) {
    Times times;
    const auto run = [&](bool again) { times = step(again); };
    const std::uint64_t allocations = memory_stats(device_).system_allocations;
    const std::size_t captured = graphs_ ? graphs_->captured() : 0;
    const std::size_t replayed = graphs_ ? graphs_->replayed() : 0;
    profile ? profile->run(run) : run(false);
    if (!graphs_ || graphs_->captured() == captured)  // else it has made a bucket's graph
      sum_.system_allocations +=
          static_cast<double>(memory_stats(device_).system_allocations - allocations);
    timed_.push_back({std::move(times), graphs_ && graphs_->replayed() > replayed});
  }

  Counts counts() const { return {group_.stats(), strategy_.seconds_exchanging(), resource_use()}; }

  void add_times(Measurement& out) const {
    for (const auto& [times, replayed] : timed_) {
      out.step_ms.push_back(1e3 * times.back()->seconds_since(*times.front()));
      for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
        if (times[phase] && times[phase + 1])
          out.phase_ms[phase].push_back(1e3 * times[phase + 1]->seconds_since(*times[phase]));
      if (replayed) out.replayed_ms.push_back(out.step_ms.back());
    }
    out.data_wait_ms = mean(out.phase_ms[0]);
  }

  Measurement measured(const Counts& before) {
    optimizer_.check_steps();
    check_loss();
    Measurement out = sum_;
    add_times(out);
    const auto steps = static_cast<double>(timed_.size());
    const Counts after = counts();
    for (const auto figure : kSums) out.*figure /= steps;
    out.system_allocations /= steps;
    out.replayed = static_cast<double>(out.replayed_ms.size()) / steps;
    const ResourceUse used = after.used - before.used;
    out.page_faults = static_cast<double>(used.page_faults) / steps;
    out.mapped_bytes = static_cast<double>(used.mapped_bytes) / steps;
    out.threads_started = static_cast<double>(used.threads_started) / steps;
    out.context_switches = static_cast<double>(used.context_switches) / steps;
    // The time of a pipeline's transfer includes the wait for its peer; in a graph there is none.
    if (!pipeline_ && out.replayed == 0)
      out.collectives_ms =
          1e3 * (after.group.seconds_running - before.group.seconds_running) / steps;
    const double waited = after.group.seconds_waited - before.group.seconds_waited;
    out.exposed_ms = 1e3 * (waited + after.exchanged - before.exchanged) / steps;
    out.wire_bytes = static_cast<double>(after.group.bytes_sent - before.group.bytes_sent) / steps;
    out.processors = processors_in_use();
    out.peak_memory_bytes = peak_resident();
    out.memory = memory_stats(device_);
    const bool whole = !plan_.same_rows() && (plan_.strategy == train::Strategy::none ||
                                              plan_.strategy == train::Strategy::ddp);
    if (whole && !several() && most_tokens_ > 0)
      out.on_paper =
          step_memory(*source_.model.transformer(), most_tokens_, options_.dtype, device_.type);
    out.hf_rows_per_pair = source_.hf_rows_per_pair;
    if (plan_.together && group_.size() > 1)
      out.algorithm =
          str(name(group_.algorithm(device_)), " over ", name(group_.transport(device_)));
    return out;
  }

  /// The same on all ranks: whether any of them mapped memory in the steps.
  bool any_mapped(const Measurement& mine) const {
    const bool mapped = mine.mapped_bytes > 0 || mine.system_allocations > 0;
    const std::vector<std::string> ranks = group_.all_gather_bytes(mapped ? "mapped" : "");
    return std::ranges::any_of(ranks, [](const std::string& rank) { return !rank.empty(); });
  }

  /// Runs more steps of a GPU, which are recorded. A machine may forbid that; the timings are valid
  /// without it.
  DeviceIdle record_idle(int steps) {
    try {
      RINGLET_CHECK(graphs_, "[idle] steps of ", device_, " are not replayed");
      const auto recording = cuda::record_activity(device_);
      return bench::record_idle(*recording, steps, [&](int n) {
        std::size_t replayed = graphs_->replayed();
        for (int i = 0; i < n; ++i) {
          step(false);
          if (graphs_->replayed() != ++replayed) return false;
        }
        return true;
      });
    } catch (const Error& error) {
      print_note(str("throughput: idle time is not measured: ", error.what()));
      return {};
    }
  }

  const ThroughputOptions& options_;
  Plan plan_;
  comm::Group group_;
  Device device_;
  Source source_;
  Times now_;  // of the step that is running
  TimedTask task_;
  std::shared_ptr<train::SentencePipeline> pipeline_;  // null unless the plan has stages
  train::AttachedStrategy strategy_;
  train::AdamW optimizer_;
  std::shared_ptr<train::StepGraphs> graphs_;  // of a GPU
  train::StepLoss loss_;                       // of the latest step
  bool again_ = false, stepped_ = false;
  train::Position at_, last_warm_up_;  // the latest step's, the last one's before those timed
  std::int64_t most_tokens_ = 0;       // of a training batch, except the first
  std::vector<TimedStep> timed_;
  Measurement sum_;  // of the timed steps
};

}  // namespace

Measurement measure_rank(const ThroughputOptions& options, const Plan& plan,
                         const comm::Group& group, int idle_steps) {
  return Runner(options, plan, group).measure(idle_steps);
}

std::vector<Plan> plan_rows(const ThroughputOptions& options) {
  const int n = options.devices;
  const auto plan_of = [n](const std::string& name) -> Plan {
    if (name == "unconnected") return {name, train::Strategy::none, n, false};
    if (name == "pipe") return {name, train::Strategy::ddp, n, true, n};
    if (name == "tensor") return {name, train::Strategy::ddp, n, true, 1, n};
    const train::Strategy strategy = train::kStrategies.parse(name);
    return {name, strategy, strategy == train::Strategy::none ? 1 : n, true};
  };
  std::vector<Plan> rows;
  for (const std::string& name : options.strategies) {
    if (name != "all") {
      rows.push_back(plan_of(name));
      continue;
    }
    rows.push_back(plan_of("none"));
    const bool own_ranks = options.logical_ranks == 0;
    for (const std::string each : {"unconnected", "dp", "ddp", "zero1", "fsdp"})
      if (n > 1 && (own_ranks || (each != "unconnected" && each != "dp")) &&
          (each != "dp" || !options.is_launched()))
        rows.push_back(plan_of(each));
  }
  return rows;
}

}  // namespace ringlet::bench
