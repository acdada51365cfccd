#include "ringlet/train/task.h"

#include <utility>

namespace ringlet::train {

double TrainingTask::take_loss() {
  const std::vector<PartialLoss> losses = std::exchange(losses_, {});
  if (losses.empty()) return 0;
  const Tensor& first = losses.front().value;
  // Side by side, to be read at once.
  Tensor all = empty({static_cast<std::int64_t>(losses.size())}, first.dtype(), first.device());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    all.slice(at, at + 1).copy_(losses[i].value);
  }
  const std::vector<double> values = all.to_vector<double>();
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) sum += values[i] * losses[i].share;
  return sum;
}

}  // namespace ringlet::train
