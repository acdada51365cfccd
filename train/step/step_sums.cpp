#include "ringlet/train/step/step_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ringlet/comm/rows.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/train/report/progress.h"

namespace ringlet::train {
namespace {

using LossSum = TrainerState::LossSum;

void add_loss(LossSum& sum, double loss) {
  sum.sum += loss;
  ++sum.steps;
}

double mean(const LossSum& loss) { return loss.sum / static_cast<double>(loss.steps); }

}  // namespace

StepResult combined(const StepResult& mine, const std::vector<double>& losses, int world_rank,
                    const comm::Group& group, bool late) {
  StepResult sum = {.dataset = mine.dataset};
  struct OneLoss {
    StepResult result;  // of all losses of its rank
    int rank;
    double loss;
  };
  std::vector<OneLoss> of_rank;
  for (const double loss : losses) of_rank.push_back({mine, world_rank, loss});
  for (const std::vector<OneLoss>& all : comm::all_gather_values(group, of_rank)) {
    for (const auto& [result, rank, loss] : all) {
      // The gradients are summed already and no longer show which rank's loss was wrong.
      RINGLET_CHECK(std::isfinite(loss), "[trainer] the loss of rank ", rank, " is ", loss,
                    late ? "" : "; nothing was updated");
      sum.loss += loss;
    }
    const StepResult& result = all.front().result;
    sum.rows += result.rows;
    sum.tokens += result.tokens;
    sum.lone_rows += result.lone_rows;
    sum.data_seconds = std::max(sum.data_seconds, result.data_seconds);
  }
  return sum;
}

void StepSums::start_clock() {
  began_ = steady_seconds();
  used_before_ = resource_use();
}

void StepSums::add(const StepResult& step) {
  const double seconds = steady_seconds() - began_;
  const ResourceUse used = resource_use() - used_before_;
  start_clock();
  result_.seconds += seconds;
  result_.data_seconds += step.data_seconds;
  result_.rows += step.rows;
  result_.tokens += step.tokens;
  state_.lone_rows += step.lone_rows;
  for (LossSum* sum : {&state_.loss, &state_.epoch_loss, &state_.run_loss})
    add_loss(*sum, step.loss);
  if (!state_.dataset_losses.empty()) {
    add_loss(state_.dataset_losses[step.dataset], step.loss);
    add_loss(state_.dataset_run_losses[step.dataset], step.loss);
  }
  since_metrics_.seconds += seconds;
  since_metrics_.rows += step.rows;
  since_metrics_.tokens += step.tokens;
  ++since_metrics_.steps;
  since_metrics_.data_seconds += step.data_seconds;
  since_metrics_.used += used;
}

Metrics StepSums::take_metrics(const std::vector<std::string>& datasets, double lr,
                               double grad_norm) {
  const auto since = std::exchange(since_metrics_, {});
  const auto rate = [&](std::int64_t n) {
    return since.seconds > 0 ? static_cast<double>(n) / since.seconds : 0;
  };
  const auto a_step = [&](auto n) { return static_cast<double>(n) / since.steps; };
  Metrics metrics{{"loss", mean(std::exchange(state_.loss, {}))}};
  for (std::size_t i = 0; i < state_.dataset_losses.size(); ++i)
    if (const LossSum loss = std::exchange(state_.dataset_losses[i], {}); loss.steps > 0)
      metrics.emplace_back("loss_" + datasets[i], mean(loss));
  metrics.insert(metrics.end(), {{"lr", lr},
                                 {"grad_norm", grad_norm},
                                 {"pairs_per_s", rate(since.rows)},
                                 {"tokens_per_s", rate(since.tokens)},
                                 {"data_wait_ms", 1e3 * a_step(since.data_seconds)},
                                 {"page_faults", a_step(since.used.page_faults)},
                                 {"mapped_bytes", a_step(since.used.mapped_bytes)},
                                 {"threads_started", a_step(since.used.threads_started)}});
  return metrics;
}

double StepSums::take_epoch_loss() { return mean(std::exchange(state_.epoch_loss, {})); }

double StepSums::run_loss() const { return state_.run_loss.steps > 0 ? mean(state_.run_loss) : 0; }

Metrics StepSums::dataset_run_losses(const std::vector<std::string>& datasets) const {
  Metrics losses;
  for (std::size_t i = 0; i < state_.dataset_run_losses.size(); ++i)
    if (const LossSum& loss = state_.dataset_run_losses[i]; loss.steps > 0)
      losses.emplace_back(datasets[i], mean(loss));
  return losses;
}

}  // namespace ringlet::train
