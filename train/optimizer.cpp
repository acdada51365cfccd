#include "ringlet/train/optimizer.h"

#include <algorithm>
#include <map>

#include "ringlet/core/quote.h"

namespace ringlet::train {
namespace {

// Checks the moments of one whole parameter.
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
  RINGLET_CHECK(arena_->numel() > 0, "[optimizer] the module has no parameters");
  for (const nn::Unit& unit : arena_->units())
    for (const nn::PlacedParameter& slot : unit.parameters)
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

void Optimizer::check_summed() const {
  for (const Slot& slot : slots_) {
    const autograd::VariableState& state = *slot.place.parameter.state();
    RINGLET_CHECK(!state.has_grad || !state.partial, "[optimizer] the gradient of '",
                  slot.place.name,
                  "' is not summed: run a step's last backward without no_sync, or discard it with "
                  "zero_grad()");
  }
}

// A step without a backward, or a second one with the same gradients, is a mistake of the caller.
void Optimizer::check_fresh() const {
  const bool fresh = std::ranges::any_of(slots_, [](const Slot& slot) {
    const autograd::VariableState& state = *slot.place.parameter.state();
    return state.has_grad && !state.applied;
  });
  RINGLET_CHECK(fresh,
                "[optimizer] every gradient is missing or was used by an earlier step: call "
                "backward() before each step()");
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

std::vector<Optimizer::ParameterState> Optimizer::updates() const {
  std::vector<ParameterState> states;
  for (const Slot& slot : slots_) states.push_back({slot.place.name, slot.steps, {}});
  return states;
}

std::vector<Optimizer::ParameterState> Optimizer::state() {
  check_steps();
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
  adamw_(run.data, run.grad, run.moments[0], run.moments[1], run.scalars, constants, run.rounded);
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
  sgd_(run.data, run.grad, run.moments.empty() ? none : run.moments[0], run.scalars, constants,
       run.rounded);
}

}  // namespace ringlet::train
