// What Optimizer::step does: the host plans and uploads, the device's work follows without it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ringlet/core/random.h"
#include "ringlet/train/optimizer.h"

namespace ringlet::train {

Device Optimizer::device() const {
  return slots_.empty() ? Device{} : slots_.front().place.parameter.device();
}

void Optimizer::prepare_step() {
  check_arena();
  refresh_slices();
  ensure_moments();
  for (Slot& slot : slots_) slot.updated = slot.place.parameter.grad().defined();
  plan_runs();
  upload_segments();
  upload_scalars();
  if (!norm_is_fresh_ && clips()) grad_norm_.reset();
}

void Optimizer::launch_step() {
  if (!norm_is_fresh_ && clips()) launch_norm(options_.max_grad_norm);
  run_updates();
  if (arena_->sharding()) arena_->sharding()->after_step();
}

void Optimizer::finish_step() {
  if (options_.check_finite && !std::isfinite(grad_norm())) fail_not_finite();
  for (Slot& slot : slots_) slot.steps += slot.updated ? 1 : 0;
  norm_is_fresh_ = false;
  default_generator().next_step();
}

// Neighbours that are updated alike, as one.
void Optimizer::plan_runs() {
  runs_.clear();
  const auto joins = [&](const Span& a, const Span& b) {
    const Slot &left = slots_[a.slot], &right = slots_[b.slot];
    return a.end == b.begin && a.slice == b.slice && left.decays == right.decays &&
           left.steps == right.steps;
  };
  for (const Span& span : spans()) {
    if (!slots_[span.slot].updated) continue;
    if (!runs_.empty() && joins(runs_.back(), span))
      runs_.back().end = span.end;
    else
      runs_.push_back(span);
  }
}

std::vector<StepSegment> Optimizer::segments() const {
  std::vector<StepSegment> segments;
  for (const Span& run : runs_) {
    const std::int64_t base = slices_[run.slice].begin;
    segments.push_back({run.begin - base, run.end - base, slots_[run.slot].decays});
  }
  return segments;
}

// There is room for every span alone, here and below, so that neither moves.
void Optimizer::upload_segments() {
  std::vector<StepSegment> now = segments();
  if (now == uploaded_) return;
  const Tensor table = segment_table(now, Device{});
  const auto room = static_cast<std::int64_t>(spans().size());
  if (!segments_.defined() || segments_.size(0) < room)
    segments_ = empty({room, table.size(1)}, table.dtype(), device());
  segments_.slice(0, table.size(0)).copy_(table);
  uploaded_ = std::move(now);
}

void Optimizer::upload_scalars() {
  std::vector<double> values{1};
  for (const Span& run : runs_)
    for (const double value : scalars(slots_[run.slot].steps + 1)) values.push_back(value);
  const auto room = static_cast<std::int64_t>(1 + spans().size() * scalars(1).size());
  if (!scalars_.defined() || scalars_.numel() < room)
    scalars_ = empty({room}, DType::f64, device());
  const auto n = static_cast<std::int64_t>(values.size());
  scalars_.slice(0, n).copy_(tensor(values, {n}, Device{}));
}

// All runs of a slice at once.
void Optimizer::run_updates() {
  const bool clipped = norm_is_fresh_ || clips();
  const Tensor grad_scale = clipped ? clip_.slice(1, 2) : scalars_.slice(0, 1);
  const auto width = static_cast<std::int64_t>(scalars(1).size());
  const auto n = static_cast<std::int64_t>(runs_.size());
  const auto slice_of = [&](std::int64_t run) {
    return runs_[static_cast<std::size_t>(run)].slice;
  };
  for (std::int64_t first = 0, end = 0; first < n; first = end) {
    const std::size_t slice = slice_of(first);
    while (end < n && slice_of(end) == slice) ++end;
    Run run{slices_[slice].data,
            slices_[slice].grad,
            moments_[slice],
            {scalars_.slice(1 + first * width, 1 + end * width), grad_scale,
             segments_.slice(first, end)},
            options_.weight_decay};
    update(run);
  }
}

double Optimizer::clip_grad_norm(double max_norm) {
  check_arena();
  refresh_slices();
  launch_norm(max_norm);
  if (options_.check_finite && !std::isfinite(grad_norm())) fail_not_finite();
  norm_is_fresh_ = true;
  return grad_norm();
}

double Optimizer::grad_norm() const {
  if (!clip_.defined()) return std::numeric_limits<double>::quiet_NaN();
  if (!grad_norm_) grad_norm_ = clip_[0].item<double>();
  return *grad_norm_;
}

// The gradient memory of a skipped parameter holds anything; zeros keep it out of its block.
void Optimizer::clear_skipped() {
  for (const Span& span : spans()) {
    if (slots_[span.slot].place.parameter.grad().defined()) continue;
    part(slices_[span.slice].grad, span).zero_();
  }
}

void Optimizer::launch_norm(double max_norm) {
  clear_skipped();
  if (!clip_.defined()) {
    clip_ = empty({2}, DType::f64, device());
    norm_blocks_ = empty({(arena_->numel() + kNormBlock - 1) / kNormBlock}, DType::f64, device());
  }
  norm_blocks_.zero_();  // those of other ranks
  for (const nn::LocalSlice& slice : slices_) {
    for (const nn::Unit& unit : arena_->units()) {
      const std::int64_t begin = std::max(unit.begin, slice.begin);
      const std::int64_t end = std::min(unit.end, slice.end);
      if (begin >= end) continue;
      const std::int64_t first = begin / kNormBlock;
      Tensor blocks =
          norm_blocks_.slice(first, first + (end - begin + kNormBlock - 1) / kNormBlock);
      squared_norm_blocks_into(blocks, slice.grad.slice(begin - slice.begin, end - slice.begin));
    }
  }
  if (arena_->sharding()) arena_->sharding()->gather_norm_blocks(norm_blocks_);
  clip_factor_into(clip_, norm_blocks_, max_norm, options_.check_finite);
  grad_norm_.reset();
}

void Optimizer::fail_not_finite() {
  for (const Span& span : spans()) {
    const Tensor grad = part(slices_[span.slice].grad, span);
    for (const double block : squared_norm_blocks(grad).to_vector<double>())
      RINGLET_CHECK(std::isfinite(block), "[optimizer] the gradient of '",
                    slots_[span.slot].place.name, "' is not finite; nothing was updated");
  }
  fail("[optimizer] a gradient of another process is not finite; nothing was updated");
}

}  // namespace ringlet::train
