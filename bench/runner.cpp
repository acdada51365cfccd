#include "runner.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <utility>

#include "ringlet/core/device/backend.h"
#include "ringlet/cuda/activity.h"
#include "ringlet/models/batch.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/parallel/model/tensor_parallel.h"

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

std::vector<Device> devices_of(const Plan& plan, const ThroughputOptions& options) {
  std::vector<Device> devices;
  for (int i = 0; plan.strategy == train::Strategy::dp && i < plan.devices; ++i)
    devices.push_back(device_of_rank(options.device, i));
  return devices;
}

/// A step of a pipeline has the rows of a step of DDP, in so many parts for each stage.
constexpr int kMicroBatchesPerStage = 4;

/// A rank's share of each global batch.
Share share_of(const Plan& plan, const comm::Group& group) {
  if (plan.same_rows()) return {0, 1, plan.devices};
  return {group.rank(), group.size(), plan.devices / group.size(),
          train::traits(plan.strategy).parameters};
}

}  // namespace

Runner::Runner(const ThroughputOptions& options, const Plan& plan, const comm::Group& group)
    : device_(options.device_of(group.rank())),
      dtype_(options.dtype),
      source_(make_source(options, share_of(plan, group))),
      task_(*this, source_),
      group_(group),
      together_(plan.together),
      dealt_out_(plan.same_rows() ||
                 (plan.strategy != train::Strategy::none && plan.strategy != train::Strategy::ddp)),
      counts_(!plan.same_rows() || group.rank() == 0),
      several_(options.logical_ranks > group.size()),
      strategy_(cli::of_option("--strategy " + plan.name, [&] { return attach(options, plan); })),
      optimizer_(*source_.loss, {.lr = 2e-5, .weight_decay = 0.01, .max_grad_norm = 1.0}) {
  source_.model.transformer()->set_compute_dtype(options.dtype);
  source_.model.set_forward_per_column(options.per_column());
  // Steps of ranks in threads are not captured. Their speed-ups are relative to one device's best.
  if (device_.type == DeviceType::cpu || options.by_op() || plan.devices > 1 || several_) return;
  graphs_ = std::make_shared<train::StepGraphs>(
      *source_.loss, optimizer_, device_,
      train::StepGraphsOptions{options.step_graphs, options.dtype,
                               [](const std::string& line) { std::cerr << line << std::endl; }});
  task_.use_graphs(graphs_);
}

train::AttachedStrategy Runner::attach(const ThroughputOptions& options, const Plan& plan) {
  const comm::Group data = plan.together && !plan.same_rows() ? group_ : comm::Group();
  if (plan.slices > 1) {
    models::Transformer& transformer = *source_.model.transformer();
    train::TensorParallel(transformer, group_, train::encoder_tensor_plan(transformer.config()));
  }
  if (plan.stages > 1) {
    const train::Mesh mesh = train::make_mesh(group_, {.data = 1, .pipe = plan.stages});
    pipeline_ = std::make_shared<train::SentencePipeline>(
        *source_.loss, std::max<std::size_t>(1, options.data.size()),
        kMicroBatchesPerStage * plan.stages, options.pipeline, mesh, dtype_, nn::UnitPolicy());
  }
  nn::Module& local = pipeline_ ? pipeline_->stage() : *source_.loss;
  train::AttachedStrategy strategy(
      plan.strategy, local, data, devices_of(plan, options), options.dtype,
      {.logical_ranks = options.logical_ranks,
       .timed = true,
       .on_note = [](const std::string& line) { std::cerr << line << std::endl; }});
  if (pipeline_) {
    pipeline_->start(strategy);
    task_.use_pipeline(pipeline_);
  }
  return strategy;
}

void Runner::warm_up(int steps) {
  for (int i = 0; i < steps; ++i) {
    last_warm_up_ = task_.position();
    step(false);
  }
}

void Runner::return_to_first() {
  if (times_.empty()) return;
  optimizer_.check_steps();
  task_.seek(last_warm_up_);  // the step before, in which a loader's thread starts anew
  step(false);
}

void Runner::start_timing() {
  optimizer_.check_steps();
  sum_ = {};
  times_.clear();
  were_replayed_.clear();
  system_allocations_ = 0;
  before_ = group_.stats();
  exchanged_before_ = strategy_.seconds_exchanging();
  used_before_ = resource_use();
  if (graphs_) replayed_before_ = graphs_->replayed();
}

Runner::TimedTask::TimedTask(Runner& runner, Source& source)
    : SentenceTask(*source.loss, std::move(source.loader), source.model.tokenizer(),
                   [this](const models::PackedBatch& batch) { return forward(batch); }),
      runner_(runner),
      loss_(*source.loss) {}

Tensor Runner::TimedTask::run() {
  if (loader().share().counts) runner_.count_batch();
  if (!runner_.now_[1]) runner_.now_[1] = device_time(runner_.device_);
  return SentenceTask::run();
}

Variable Runner::TimedTask::forward(const models::PackedBatch& batch) const {
  // Perhaps while it is captured; the phases of several batches are not timed.
  if (runner_.graphs_ || runner_.several_) return loss_(batch);
  const models::PackedBatch placed = loss_.placed(batch);
  runner_.now_[1] = device_time(runner_.device_);
  Variable value = loss_(placed);
  runner_.now_[2] = device_time(runner_.device_);
  return value;
}

Runner::Times Runner::step(bool again) {
  now_ = {};
  counted_ = {};
  now_[0] = device_time(device_);
  if (again && !several_) {
    task_.run_again();
  } else {
    if (again) task_.seek(at_);
    at_ = task_.position();
    task_.step();
    if (std::exchange(stepped_, true))
      count_tokens();  // in the first backward there are no moments
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

void Runner::check_loss() {
  const double loss = loss_.value();
  RINGLET_CHECK(std::isfinite(loss), "the loss is ", loss);
}

void Runner::timed_step(StepProfile* profile) {
  Times times;
  const auto run = [&](bool again) { times = step(again); };
  const std::uint64_t allocations = memory_stats(device_).system_allocations;
  const std::size_t captured = graphs_ ? graphs_->captured() : 0;
  const std::size_t replayed = graphs_ ? graphs_->replayed() : 0;
  profile ? profile->run(run) : run(false);
  if (!graphs_ || graphs_->captured() == captured)  // else it has made a bucket's graph
    system_allocations_ += memory_stats(device_).system_allocations - allocations;
  times_.push_back(std::move(times));
  were_replayed_.push_back(graphs_ && graphs_->replayed() > replayed);
  count_step();
}

void Runner::count_tokens() {
  const models::PackedBatch& batch = task_.batch();
  const std::int64_t filled = device_.type == DeviceType::cpu ? 0 : models::bucket_of(batch);
  most_tokens_ = std::max({most_tokens_, batch.tokens(), filled});
}

void Runner::count_batch() {
  const models::PackedBatch& batch = task_.batch();
  counted_.real_tokens += static_cast<double>(batch.real_tokens);
  counted_.padded_tokens += static_cast<double>(batch.padded_tokens);
  counted_.pairs += static_cast<double>(batch.rows);
  counted_.sentences += static_cast<double>(batch.sentences());
}

void Runner::count_step() {
  if (!counts_) return;
  sum_.real_tokens += counted_.real_tokens;
  sum_.padded_tokens += counted_.padded_tokens;
  sum_.pairs += counted_.pairs;
  sum_.sentences += counted_.sentences;
}

void Runner::add_times(Measurement& out) const {
  const double steps = static_cast<double>(times_.size());
  for (const Times& times : times_) {
    out.step_ms.push_back(1e3 * times.back()->seconds_since(*times.front()));
    for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
      if (times[phase] && times[phase + 1])
        out.phase_ms[phase].push_back(1e3 * times[phase + 1]->seconds_since(*times[phase]));
    out.data_wait_ms += out.phase_ms[0].back() / steps;
    if (were_replayed_[out.step_ms.size() - 1]) out.replayed_ms.push_back(out.step_ms.back());
  }
}

Measurement Runner::measured() {
  optimizer_.check_steps();
  check_loss();
  Measurement out = sum_;
  add_times(out);
  const auto steps = static_cast<double>(times_.size());
  const comm::GroupStats after = group_.stats();
  out.real_tokens /= steps;
  out.padded_tokens /= steps;
  out.pairs /= steps;
  out.sentences /= steps;
  const ResourceUse used = resource_use() - used_before_;
  out.page_faults = static_cast<double>(used.page_faults) / steps;
  out.mapped_bytes = static_cast<double>(used.mapped_bytes) / steps;
  out.threads_started = static_cast<double>(used.threads_started) / steps;
  out.context_switches = static_cast<double>(used.context_switches) / steps;
  const double exchanged = strategy_.seconds_exchanging() - exchanged_before_;
  if (!pipeline_)  // the time of a transfer includes the wait for its peer
    out.collectives_ms = 1e3 * (after.seconds_running - before_.seconds_running) / steps;
  out.exposed_ms = 1e3 * (after.seconds_waited - before_.seconds_waited + exchanged) / steps;
  out.wire_bytes = static_cast<double>(after.bytes_sent - before_.bytes_sent) / steps;
  out.processors = processors_in_use();
  out.peak_memory_bytes = peak_resident();
  const MemoryStats memory = memory_stats(device_);
  out.memory = memory;
  if (!dealt_out_ && !several_ && most_tokens_ > 0)
    out.on_paper = step_memory(*source_.model.transformer(), most_tokens_, dtype_, device_.type);
  out.system_allocations = static_cast<double>(system_allocations_) / steps;
  if (graphs_) out.replayed = static_cast<double>(graphs_->replayed() - replayed_before_) / steps;
  out.hf_rows_per_pair = source_.hf_rows_per_pair;
  if (together_ && group_.size() > 1) {
    const comm::Algorithm asked = group_.options().algorithm;
    out.algorithm = str(name(asked == comm::Algorithm::automatic ? comm::Algorithm::direct : asked),
                        " over ", name(group_.transport(device_)));
  }
  return out;
}

bool Runner::replay(int steps) {
  for (int i = 0; i < steps; ++i) {
    const std::size_t replayed = graphs_->replayed();
    step(false);
    if (graphs_->replayed() == replayed) return false;
  }
  return true;
}

DeviceIdle Runner::record_idle(int steps) {
  RINGLET_CHECK(graphs_, "[idle] steps of ", device_, " are not replayed");
  const auto recording = cuda::record_activity(device_);
  return bench::record_idle(*recording, steps, [&](int n) { return replay(n); });
}

std::vector<Plan> plan_rows(const ThroughputOptions& options) {
  std::vector<Plan> rows;
  const auto add = [&](const std::string& name) {
    if (name == "unconnected")
      rows.push_back({name, train::Strategy::none, options.devices, false});
    else if (name == "pipe")
      rows.push_back({name, train::Strategy::ddp, options.devices, true, options.devices});
    else if (name == "tensor")
      rows.push_back({name, train::Strategy::ddp, options.devices, true, 1, options.devices});
    else if (const train::Strategy strategy = train::kStrategies.parse(name);
             strategy == train::Strategy::none)
      rows.push_back({name, strategy, 1, true});
    else
      rows.push_back({name, strategy, options.devices, true});
  };
  for (const std::string& name : options.strategies) {
    if (name != "all") {
      add(name);
      continue;
    }
    add("none");
    const bool own_ranks = options.logical_ranks == 0;
    if (options.devices > 1)
      for (const std::string each : {"unconnected", "dp", "ddp", "zero1", "fsdp"})
        if ((own_ranks || (each != "unconnected" && each != "dp")) &&
            (each != "dp" || !options.is_launched()))
          add(each);
  }
  return rows;
}

}  // namespace ringlet::bench
