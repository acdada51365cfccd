#include "ringlet/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ringlet/core/quote.h"
#include "ringlet/core/random.h"

namespace ringlet::train {
namespace {

// Of one parameter, whole.
void check_moments(const Optimizer::ParameterState& given, const std::vector<std::string>& names,
                   const Shape& shape) {
  RINGLET_CHECK_EQ(given.moments.size(), names.size(), "[optimizer] moments of ", given.name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [name, value] = given.moments[i];
    RINGLET_CHECK_EQ(name, names[i], "[optimizer] moment of ", given.name);
    RINGLET_CHECK(value.defined(), "[optimizer] ", name, " of ", given.name, ": expected shape ",
                  shape, ", found an undefined tensor");
    RINGLET_CHECK(value.shape() == shape || value.shape() == Shape{shape.numel()}, "[optimizer] ",
                  name, " of ", given.name, ": expected shape ", shape, ", found ", value.shape());
  }
}

}  // namespace

OptimizerKind parse_optimizer(const std::string& name) {
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd})
    if (name == optimizer_name(kind)) return kind;
  fail_input("unknown optimizer ", quote(name), "; expected ", kOptimizerNames);
}

const char* optimizer_name(OptimizerKind kind) {
  return kind == OptimizerKind::sgd ? "sgd" : "adamw";
}

bool decays_by_default(const std::string& name, const Shape& shape) {
  return shape.dim() > 1 && name.find("bias") == std::string::npos &&
         name.find("LayerNorm") == std::string::npos;
}

std::vector<std::string> parameters_without_grad(const nn::Module& module) {
  std::vector<std::string> names;
  for (const nn::NamedParameter& named : module.named_parameters())
    if (named.parameter.requires_grad() && !named.parameter.grad().defined())
      names.push_back(named.name);
  return names;
}

Optimizer::Optimizer(nn::Module& module, Options options, std::vector<std::string> moment_names)
    : module_(module),
      options_(std::move(options)),
      moment_names_(std::move(moment_names)),
      arena_(nn::pack(module)) {
  for (const nn::Unit& unit : arena_->units())
    for (const nn::Slot& slot : unit.slots)
      slots_.push_back({slot, options_.decays(slot.name, slot.parameter.shape())});
  // From here on gradients are written into the arena. Slices are asked for anew at each step, so
  // that a strategy that comes later may take the memory.
  refresh_slices();
  slices_.clear();
}

void Optimizer::check_arena() const {
  if (!arena_->data().defined()) return;
  for (const Slot& slot : slots_)
    RINGLET_CHECK(slot.place.parameter.tensor().storage() == arena_->data().storage(),
                  "[optimizer] '", slot.place.name,
                  "' was packed into another arena after its optimizer was made");
}

void Optimizer::refresh_slices() {
  std::vector<nn::LocalSlice> slices = arena_->local_slices();
  const bool same =
      std::equal(slices.begin(), slices.end(), slices_.begin(), slices_.end(),
                 [](const auto& a, const auto& b) { return a.begin == b.begin && a.end == b.end; });
  RINGLET_CHECK(same || moments_.empty(),
                "[optimizer] the arena was dealt out after the first step");
  slices_ = std::move(slices);
}

void Optimizer::ensure_moments() {
  if (!moments_.empty()) return;
  for (const nn::LocalSlice& slice : slices_) {
    std::vector<Tensor>& tensors = moments_.emplace_back();
    for (std::size_t i = 0; i < moment_names_.size(); ++i)
      tensors.push_back(zeros_like(slice.data));
  }
}

std::vector<Optimizer::Span> Optimizer::spans() const {
  std::vector<Span> spans;
  std::size_t slice = 0;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const std::int64_t begin = slots_[slot].place.offset;
    const std::int64_t end = begin + slots_[slot].place.numel();
    while (slice < slices_.size() && slices_[slice].end <= begin) ++slice;
    for (std::size_t i = slice; i < slices_.size() && slices_[i].begin < end; ++i)
      spans.push_back({slot, i, std::max(begin, slices_[i].begin), std::min(end, slices_[i].end)});
  }
  return spans;
}

Tensor Optimizer::part(const Tensor& of_slice, const Span& span) const {
  const std::int64_t base = slices_[span.slice].begin;
  return of_slice.slice(span.begin - base, span.end - base);
}

Device Optimizer::device() const {
  return slots_.empty() ? Device{} : slots_.front().place.parameter.device();
}

void Optimizer::prepare_step() {
  check_arena();
  refresh_slices();
  ensure_moments();
  for (Slot& slot : slots_) slot.updated = slot.place.parameter.grad().defined();
  plan_runs();
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

void Optimizer::upload_scalars() {
  std::vector<double> values{1};
  for (const Span& run : runs_)
    for (const double value : scalars(slots_[run.slot].steps + 1)) values.push_back(value);
  // There is room for every span alone, so that it does not move.
  const auto room = static_cast<std::int64_t>(1 + spans().size() * scalars(1).size());
  if (!scalars_.defined() || scalars_.numel() < room)
    scalars_ = empty({room}, DType::f64, device());
  const auto n = static_cast<std::int64_t>(values.size());
  scalars_.slice(0, n).copy_(tensor(values, {n}, Device{}));
}

void Optimizer::run_updates() {
  const bool clipped = norm_is_fresh_ || clips();
  const Tensor grad_scale = clipped ? clip_.slice(1, 2) : scalars_.slice(0, 1);
  const auto width = static_cast<std::int64_t>(scalars(1).size());
  std::int64_t at = 1;
  for (const Span& run : runs_) {
    std::vector<Tensor> moments;
    for (const Tensor& moment : moments_[run.slice]) moments.push_back(part(moment, run));
    Run piece{part(slices_[run.slice].data, run),
              part(slices_[run.slice].grad, run),
              std::move(moments),
              {scalars_.slice(at, at + width), grad_scale},
              slots_[run.slot].decays ? options_.weight_decay : 0};
    update(piece);
    at += width;
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

std::vector<Optimizer::ParameterState> Optimizer::updates() const {
  std::vector<ParameterState> states;
  for (const Slot& slot : slots_) states.push_back({slot.place.name, slot.steps, {}});
  return states;
}

std::vector<Optimizer::ParameterState> Optimizer::state() {
  refresh_slices();
  std::vector<ParameterState> states = updates();
  if (moments_.empty()) return states;
  for (const Span& span : spans()) {
    if (slots_[span.slot].steps == 0) continue;
    for (std::size_t i = 0; i < moment_names_.size(); ++i)
      states[span.slot].moments.emplace_back(moment_names_[i], part(moments_[span.slice][i], span));
  }
  return states;
}

// The parameter that a state belongs to, which it must fit.
std::size_t Optimizer::slot_of(const ParameterState& given) const {
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& known) { return known.place.name == given.name; });
  RINGLET_CHECK(slot != slots_.end(), "[optimizer] no parameter '", given.name, "'");
  RINGLET_CHECK(given.steps >= 0, "[optimizer] ", given.steps, " updates of ", given.name);
  if (given.steps > 0) check_moments(given, moment_names_, slot->place.parameter.shape());
  return static_cast<std::size_t>(slot - slots_.begin());
}

void Optimizer::load_state(const std::vector<ParameterState>& states) {
  std::map<std::size_t, const ParameterState*> of_slots;
  for (const ParameterState& given : states) of_slots[slot_of(given)] = &given;
  refresh_slices();
  ensure_moments();
  for (Slot& slot : slots_) slot.steps = 0;
  for (std::vector<Tensor>& tensors : moments_)
    for (Tensor& moment : tensors) moment.zero_();
  for (const auto& [slot, given] : of_slots) slots_[slot].steps = given->steps;
  for (const Span& span : spans()) {
    const auto given = of_slots.find(span.slot);
    if (given == of_slots.end() || given->second->steps == 0) continue;
    const std::int64_t begin = slots_[span.slot].place.offset;
    for (std::size_t i = 0; i < moment_names_.size(); ++i) {
      const Tensor whole = given->second->moments[i].second.view({-1});
      part(moments_[span.slice][i], span).copy_(whole.slice(span.begin - begin, span.end - begin));
    }
  }
}

AdamW::AdamW(nn::Module& module, AdamWOptions options)
    : Optimizer(module,
                {options.lr, options.weight_decay, options.max_grad_norm, options.check_finite,
                 std::move(options.decays)},
                {"exp_avg", "exp_avg_sq"}),
      constants_{options.beta1, options.beta2, options.eps, 0} {}

std::vector<double> AdamW::scalars(std::int64_t step) const {
  return adamw_scalars(lr(), step, constants_);
}

void AdamW::update(Run& run) {
  AdamWConstants constants = constants_;
  constants.weight_decay = run.weight_decay;
  adamw_(run.data, run.grad, run.moments[0], run.moments[1], run.scalars, constants);
}

Sgd::Sgd(nn::Module& module, SgdOptions options)
    : Optimizer(module,
                {options.lr, options.weight_decay, options.max_grad_norm, options.check_finite,
                 std::move(options.decays)},
                options.momentum != 0 ? std::vector<std::string>{"momentum_buffer"}
                                      : std::vector<std::string>{}),
      constants_{options.momentum, 0, options.nesterov} {
  RINGLET_CHECK(!options.nesterov || options.momentum != 0, "[sgd] nesterov needs momentum");
}

std::vector<double> Sgd::scalars(std::int64_t) const { return {lr()}; }

void Sgd::update(Run& run) {
  Tensor none;
  SGDConstants constants = constants_;
  constants.weight_decay = run.weight_decay;
  sgd_(run.data, run.grad, run.moments.empty() ? none : run.moments[0], run.scalars, constants);
}

}  // namespace ringlet::train
