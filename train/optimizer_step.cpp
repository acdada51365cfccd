// Optimizer::step: the host plans and uploads, the device's work is asynchronous.
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
  check_summed();
  check_fresh();
  ensure_moments();
  for (Slot& slot : slots_) slot.updated = slot.place.parameter.grad().defined();
  plan_runs();
  upload_segments();
  upload_scalars();
  prepare_mirror();
}

void Optimizer::launch_step() {
  if (!norm_is_fresh_ && clips()) launch_norm(options_.max_grad_norm);
  const bool mirrored = has_mirror();
  run_updates(mirrored);
  if (mirrored) keep_mirror();
  if (arena_->sharding()) arena_->sharding()->after_step();
}

void Optimizer::count_replay() {
  const bool mirrored = has_mirror();
  for (const nn::LocalSlice& slice : slices_) slice.data.storage()->bump_version();
  if (mirrored) keep_mirror();
}

void Optimizer::end_step() {
  Ended& ended = ended_.emplace_back();
  if (clips() && !norm_is_fresh_) ended.clip = HostCopy(clip_);
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].updated) {
      ended.updated.push_back(i);
      ++slots_[i].steps;
      autograd::VariableState& state = *slots_[i].place.parameter.state();
      state.applied = state.has_grad;  // zero_grad may have come before
    }
  ended.generator = default_generator();
  norm_is_fresh_ = false;
  default_generator().next_step();
}

void Optimizer::check_steps(std::size_t late) {
  for (; ended_.size() > late; ended_.pop_front()) {
    Ended& oldest = ended_.front();
    if (!oldest.clip.defined()) continue;
    try {
      oldest.clip.values();
    } catch (...) {  // a wrong label or id on a GPU
      take_back_ended();
      throw;
    }
    checked_ = std::move(oldest.clip);
    if (!is_refused()) continue;
    const std::vector<std::size_t> updated = oldest.updated;
    take_back_ended();
    fail_not_finite(updated);
  }
}

// Neither they nor what the device did for them has changed anything.
void Optimizer::take_back_ended() {
  default_generator().step = ended_.front().generator.step;
  default_generator().draws = ended_.front().generator.draws;
  for (const Ended& ended : ended_)
    for (const std::size_t i : ended.updated) {
      --slots_[i].steps;
      slots_[i].place.parameter.state()->applied = false;
    }
  ended_.clear();
  clip_.zero_();  // the next step is refused no longer
}

std::vector<std::int64_t> Optimizer::plan() const {
  const void* const mirror = mirror_.bytes();
  std::vector<std::int64_t> plan{
      static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(mirror))};
  for (const Span& run : runs_) plan.insert(plan.end(), {run.begin, run.end});
  return plan;
}

// Merges neighbours with the same update.
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
void Optimizer::run_updates(bool mirrored) {
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
            mirrored ? mirror_ : Tensor(),
            {scalars_.slice(1 + first * width, 1 + end * width), grad_scale,
             segments_.slice(first, end)},
            options_.weight_decay};
    update(run);
  }
}

double Optimizer::clip_grad_norm(double max_norm) {
  check_steps();
  check_arena();
  refresh_slices();
  check_summed();
  launch_norm(max_norm);
  checked_ = HostCopy(clip_);
  if (is_refused()) {
    clip_.zero_();
    fail_not_finite(slots_with_grad());
  }
  norm_is_fresh_ = true;
  return grad_norm();
}

double Optimizer::grad_norm() const {
  return checked_.defined() ? checked_.values()[0] : std::numeric_limits<double>::quiet_NaN();
}

bool Optimizer::is_refused() const { return options_.check_finite && !std::isfinite(grad_norm()); }

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
    clip_ = zeros({3}, DType::f64, device());
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
}

std::vector<std::size_t> Optimizer::slots_with_grad() const {
  std::vector<std::size_t> slots;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].place.parameter.grad().defined()) slots.push_back(i);
  return slots;
}

// Checks the part of the gradient that this process holds; true if there is none.
bool Optimizer::grad_is_finite(std::size_t slot) const {
  if (!slots_[slot].place.parameter.grad().defined()) return true;
  for (const Span& span : spans()) {
    if (span.slot != slot) continue;
    for (const double block :
         squared_norm_blocks(part(slices_[span.slice].grad, span)).to_vector<double>())
      if (!std::isfinite(block)) return false;
  }
  return true;
}

// Names the parameters in the block that was found, or only the one with a gradient that is still
// not finite.
void Optimizer::fail_not_finite(const std::vector<std::size_t>& updated) {
  const std::int64_t begin = static_cast<std::int64_t>(checked_.values()[2]) * kNormBlock;
  std::vector<std::size_t> in_block;
  for (const std::size_t i : updated) {
    const nn::PlacedParameter& place = slots_[i].place;
    if (place.offset >= begin + kNormBlock || place.offset + place.numel() <= begin) continue;
    in_block.push_back(i);
    if (grad_is_finite(i)) continue;
    in_block = {i};
    break;
  }
  std::string names;
  for (const std::size_t i : in_block)
    names += str(names.empty() ? "" : " or ", '\'', slots_[i].place.name, '\'');
  // Blocks of f64 may have a sum that is not finite.
  fail("[optimizer] the gradient", names.empty() ? "'s norm" : " of ", names,
       " is not finite; nothing was updated");
}

}  // namespace ringlet::train
