#include "ringlet/train/parallel/distributed_data_parallel.h"

#include <algorithm>

#include "ringlet/autograd/side_branch.h"
#include "ringlet/core/base/setting.h"

namespace ringlet::train {
namespace {

std::int64_t elements(const char* option, double mb, DType dtype) {
  RINGLET_CHECK(mb > 0, "[ddp] ", option, ": expected more than 0, found ", mb);
  const double n = mb * (1 << 20) / static_cast<double>(itemsize(dtype));
  return static_cast<std::int64_t>(std::clamp(n, 1.0, 0x1p60));
}

}  // namespace

std::vector<Bucket> cut_buckets(std::int64_t numel, std::int64_t first, std::int64_t cap,
                                const std::vector<Bucket>& alone) {
  std::vector<Bucket> buckets;
  std::int64_t end = numel;
  const auto cut_down_to = [&](std::int64_t edge) {
    while (end > edge) {
      const std::int64_t begin = std::max(edge, end - (buckets.empty() ? first : cap));
      buckets.push_back({begin, end});
      end = begin;
    }
  };
  for (auto range = alone.rbegin(); range != alone.rend(); ++range) {
    cut_down_to(range->end);
    buckets.push_back(*range);
    end = range->begin;
  }
  cut_down_to(0);
  return buckets;
}

DistributedDataParallel::DistributedDataParallel(nn::Module& module, const comm::Group& group,
                                                 Options options)
    : RankStrategy(Strategy::ddp, module, group, options.average, options.logical_ranks),
      hook_(std::move(options.communication_hook)),
      sum_(leaves_of_rank(rank(), size(), logical_ranks()), logical_ranks()) {
  if (hook_ && logical_ranks() > size())
    fail_setting("logical_ranks", ' ', logical_ranks(), ": expected no communication hook, which ",
                 "reduces one gradient of each of the ", size(), " ranks");
  const DType dtype = arena_->data().dtype();
  const std::int64_t first = elements("first_bucket_mb", options.first_bucket_mb, dtype);
  const std::int64_t cap = elements("bucket_cap_mb", options.bucket_cap_mb, dtype);
  std::vector<Bucket> alone;  // a large table may be exchanged by rows
  for (const Item& item : items_) {
    const nn::PlacedParameter& slot = *item.slot;
    if (slot.parameter.dim() == 2 && slot.numel() > cap)
      alone.push_back({slot.offset, slot.offset + slot.numel()});
  }
  buckets_ = cut_buckets(arena_->numel(), first, cap, alone);
  states_.resize(buckets_.size());
  arena_->grad();
}

template <class Visit>
void DistributedDataParallel::for_buckets(const Item& item, Visit&& visit) {
  const std::int64_t begin = item.slot->offset, end = begin + item.slot->numel();
  // From the last elements to the first, like the buckets.
  auto bucket = std::partition_point(buckets_.begin(), buckets_.end(),
                                     [&](const Bucket& b) { return b.begin >= end; });
  for (; bucket != buckets_.end() && bucket->end > begin; ++bucket)
    visit(static_cast<std::size_t>(bucket - buckets_.begin()));
}

std::vector<nn::LocalSlice> DistributedDataParallel::local_slices() {
  check_usable();
  return {{0, arena_->numel(), arena_->data(), arena_->grad()}};
}

std::string DistributedDataParallel::why_no_graphs() const {
  return hook_ ? "a communication hook runs on the host" : why_not_captured();
}

void DistributedDataParallel::backward_begins(std::span<autograd::VariableState* const> reached) {
  const bool reduce = begin(reached);
  for (BucketState& state : states_) state = {};
  reductions_.clear();
  for (Item& item : items_) {
    if (item.reached && !item.pending) item.stash();
    if (!item.state->has_grad) {
      tables_.forget(*item.state);
      item.state->dense = false;
    }
    if (!item.reached && !item.pending) continue;
    item.pending = true;
    for_buckets(item, [&](std::size_t b) {
      states_[b].active = true;
      if (item.reached) ++states_[b].waiting;
    });
  }
  next_ = 0;
  reducing_ = reduce;
  launch_complete();
}

void DistributedDataParallel::end_logical_rank(bool counts) {
  check_usable();
  if (!counts) return drop_gradients();
  add_to_sum(items_, arena_->grad(), sum_, 0);
}

void DistributedDataParallel::grad_ready(autograd::VariableState& leaf) {
  for_buckets(item_of(leaf), [&](std::size_t b) { --states_[b].waiting; });
  launch_complete();
}

// The same ones on all ranks.
void DistributedDataParallel::leave_out_unwritten() {
  for (Item& item : items_)
    if (!item.state->has_grad && !item.carried && std::exchange(item.pending, false))
      item.restore();
}

void DistributedDataParallel::backward_ends() {
  leave_out_unwritten();
  if (std::exchange(reducing_, false)) reduce_rest();
  RankStrategy::backward_ends();
}

void DistributedDataParallel::reduce_rest() {
  while (next_ < buckets_.size()) launch_next();
  for (const auto& finish : reductions_) finish();
  reductions_.clear();
  sum_.clear();
  for (Item& item : items_) {
    if (!std::exchange(item.pending, false)) continue;
    item.state->has_grad = true;
    item.carried = false;
    take_average(item.state->grad_buffer);
    item.add_earlier();
  }
}

void DistributedDataParallel::launch_complete() {
  if (!reducing_) return;
  while (next_ < buckets_.size() && (!states_[next_].active || states_[next_].waiting == 0))
    autograd::SideBranch::run_behind([&] { launch_next(); });
}

void DistributedDataParallel::launch_next() {
  const std::size_t index = next_++;
  const Bucket bucket = buckets_[index];
  if (!states_[index].active) return;
  clear_others(bucket);
  const Tensor gradients = arena_->grad().slice(bucket.begin, bucket.end);
  if (hook_) return reductions_.push_back(hook_(group_, {index, gradients}));
  if (exchange_rows(bucket)) return;
  if (logical_ranks() == size()) {
    reductions_.push_back([work = group_.all_reduce(gradients)] { work.wait(); });
    return;
  }
  const std::vector<Tensor> nodes = sum_.nodes(gradients, bucket.begin);
  reductions_.push_back(
      [to = Tensor(gradients), sum = nodes.front(),
       work = group_.all_reduce(comm::NodeSums{nodes, logical_ranks()})]() mutable {
        work.wait();
        if (sum.bytes() != to.bytes()) to.copy_(sum);
      });
}

// True if the bucket is a table with so few written rows that only these are sent.
bool DistributedDataParallel::exchange_rows(const Bucket& bucket) {
  for (const Item& item : items_) {
    const bool alone =
        item.slot->offset == bucket.begin && item.slot->numel() == bucket.end - bucket.begin;
    if (!alone || item.slot->parameter.dim() != 2) continue;
    if (logical_ranks() > size()) return false;  // nodes are whole
    const RowTables::Finish finish = tables_.exchange(*item.state, group_);
    if (!finish) return false;
    reductions_.push_back([finish, to = item.state->grad_buffer.view({-1})] { finish(to, 0); });
    return true;
  }
  return false;
}

// Gradients that are not reduced now may lie between others. Garbage becomes zeros; a sum that
// every rank holds already is kept only by rank 0.
void DistributedDataParallel::clear_others(const Bucket& bucket) {
  for (const Item& item : items_) {
    const std::int64_t begin = std::max(item.slot->offset, bucket.begin);
    const std::int64_t end = std::min(item.slot->offset + item.slot->numel(), bucket.end);
    const bool complete = item.pending && item.state->has_grad;
    if (begin >= end || complete || (item.reduced && rank() == 0)) continue;
    arena_->grad().slice(begin, end).zero_();
  }
}

}  // namespace ringlet::train
