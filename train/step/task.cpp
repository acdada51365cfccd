#include "ringlet/train/step/task.h"

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
  for (const Part& part : parts) shares_.push_back(part.share);
}

double StepLoss::value() {
  double sum = 0;
  for (std::size_t i = 0; i < shares_.size(); ++i) sum += values_.values()[i] * shares_[i];
  return sum;
}

}  // namespace ringlet::train
