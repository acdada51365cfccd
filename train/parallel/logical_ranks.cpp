// Strategies with more logical ranks than ranks: a rank adds the gradients of its logical ranks
// itself, before they are summed over ranks.
#include "ringlet/core/base/setting.h"
#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

void RankStrategy::check_logical_ranks() const {
  if (logical_ranks_ == 0) return;
  if (logical_ranks_ < size())
    fail_setting("logical_ranks", ": expected at least the ", size(), " ranks, found ",
                 logical_ranks_);
  const comm::Algorithm algorithm = group_.options().algorithm;
  if (size() > 1 && algorithm != comm::Algorithm::direct && algorithm != comm::Algorithm::automatic)
    fail_setting("logical_ranks", ' ', logical_ranks_, ": expected algorithm direct, found ",
                 comm::name(algorithm));
  if (logical_ranks_ > size() && !module_.named_buffers().empty())
    fail_setting("logical_ranks", ' ', logical_ranks_, ": '", module_.named_buffers().front().first,
                 "' is a buffer, and follows the batches of a rank; expected a module without");
}

void RankStrategy::add_to_sum(std::span<Item> items, const Tensor& gradients,
                              comm::LogicalSum& of_earlier, std::int64_t begin) {
  for (const Item& item : items)  // an earlier logical rank may have one
    if (item.pending && !item.state->has_grad) item.slot->in(gradients, begin).zero_();
  const Tensor sum = of_earlier.add(gradients);
  for (Item& item : items) {
    if (!item.pending) {
      item.slot->in(sum, begin).zero_();
      continue;
    }
    item.carried = true;
    item.state->has_grad = item.state->dense = false;
    tables_.forget(*item.state);
  }
}

void RankStrategy::drop_gradients() {
  for (Item& item : items_) {
    if (!item.pending) continue;
    item.state->has_grad = item.state->dense = false;
    tables_.forget(*item.state);
  }
  leave_out_unwritten();
}

}  // namespace ringlet::train
