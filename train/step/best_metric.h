// The figure that compares evaluations: metric_for_best_model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/train/report/metrics.h"
#include "ringlet/train/step/trainer_state.h"

namespace ringlet::train {

class BestMetric {
 public:
  /// `name` with or without "eval_"; empty: "loss". None: greater is better unless it ends with
  /// "loss".
  explicit BestMetric(std::string name, std::optional<bool> greater_is_better = {});

  /// InputError, with the names there are, if none of them is the figure's.
  void check_named(const std::vector<std::string>& names) const;
  /// Rank 0's figure among its `metrics`, on every rank. InputError on every rank if rank 0 has
  /// none.
  double value(const Metrics& metrics, const comm::Group& group) const;
  /// By how much `value` is better than the best; infinity if there is none. NaN is never better.
  double improvement(double value, const std::optional<BestModel>& best) const;
  /// "loss, smaller is better"
  std::string describe() const;

 private:
  std::string name_;  // without "eval_"
  bool greater_;
};

}  // namespace ringlet::train
