#include "ringlet/train/step/task.h"

#include <numeric>

#include "ringlet/core/device/observers.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/parallel/no_sync.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::train {
namespace {

/// The values in one tensor (parts), for one copy to the host.
Tensor side_by_side(const std::vector<StepLoss::Part>& parts) {
  const Tensor& first = parts.front().value;
  const auto n = static_cast<std::int64_t>(parts.size());
  if (n == 1) return first;
  Tensor all = empty({n}, first.dtype(), first.device());
  for (std::int64_t i = 0; i < n; ++i)
    all.slice(i, i + 1).copy_(parts[static_cast<std::size_t>(i)].value);
  return all;
}

}  // namespace

StepLoss::StepLoss(const std::vector<Part>& parts) {
  if (parts.empty()) return;
  values_ = HostCopy(side_by_side(parts));
  for (const Part& part : parts) parts_.push_back({{}, part.share, part.ends_rank});
}

std::vector<double> StepLoss::by_logical_rank() {
  std::vector<double> sums{0};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    sums.back() += values_.values()[i] * parts_[i].share;
    if (parts_[i].ends_rank && i + 1 < parts_.size()) sums.push_back(0);
  }
  return sums;
}

double StepLoss::value() {
  const std::vector<double> sums = by_logical_rank();
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

StepResult TrainingTask::step() {
  StepResult result;
  const double waited = loader().seconds_waited();
  const BatchShare& share = loader().share();
  micro_batch_.reset();  // of a step that threw
  for (std::size_t micro = 0; micro == 0 || !share.ends_step; ++micro) {
    if (micro > 0) micro_batch_ = micro;
    {
      const TimelinePhase phase("data");
      const ObservedWait observed("data");
      if (!next()) next();  // the first of the next epoch
    }
    if (!share.ends_step) micro_batch_ = micro;  // the first one, too
    if (share.counts) count(result);
    std::optional<NoSync> no_sync;
    if (!share.ends_step) no_sync.emplace(module_, NoSync::AnyModule{});
    if (const Tensor loss = run(); loss.defined() && share.counts)
      losses_.push_back({loss, share.factor, share.ends_rank});
    if (share.ends_rank && !share.ends_step) end_logical_rank(module_, share.counts);
  }
  micro_batch_.reset();
  result.data_seconds = loader().seconds_waited() - waited;
  return result;
}

void TrainingTask::update(Optimizer& optimizer) const {
  if (!graphs_) {
    const TimelinePhase phase("optimizer");
    optimizer.prepare_step();
    optimizer.launch_step();
  }
  optimizer.end_step();
}

Tensor TrainingTask::forward_and_backward(const std::function<Variable()>& loss) const {
  std::optional<TimelinePhase> phase("forward");
  const Variable value = loss();
  phase.emplace("backward");
  loader().weigh(value).backward();
  return value.tensor();
}

void TrainingTask::run_again() {
  losses_.clear();
  losses_.push_back({run(), loader().share().factor});
}

bool TrainingTask::use_graphs(std::shared_ptr<StepGraphs> graphs) {
  if (!has_graphs()) return false;
  graphs_ = std::move(graphs);
  return true;
}

std::vector<EpochRows> TrainingTask::epoch_rows(std::size_t epoch) const {
  const Sampler& sampler = loader().sampler();
  const std::vector<std::size_t> used = sampler.rows_per_epoch(epoch);
  std::vector<EpochRows> rows;
  for (std::size_t i = 0; i < used.size(); ++i) rows.push_back({used[i], sampler.sizes()[i]});
  return rows;
}

}  // namespace ringlet::train
