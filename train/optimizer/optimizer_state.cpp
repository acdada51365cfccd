#include "ringlet/train/optimizer/optimizer_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ringlet/core/ops/optimizer.h"
#include "ringlet/nn/name_pattern.h"
#include "ringlet/nn/pack.h"

namespace ringlet::train {

bool decays_by_default(const std::string& name, const Shape& shape) {
  return shape.dim() > 1 && name.find("bias") == std::string::npos &&
         name.find("LayerNorm") == std::string::npos;
}

std::string describe(const std::vector<ParameterGroup>& groups) {
  std::string text;
  for (const ParameterGroup& group : groups) {
    text += fmt::format("{}{}", text.empty() ? "" : "; ", fmt::join(group.parameters, ","));
    if (group.lr) text += fmt::format(" lr {}", *group.lr);
    if (group.weight_decay) text += fmt::format(" weight_decay {}", *group.weight_decay);
  }
  return text;
}

namespace {

// The first group that names each parameter, or null.
std::vector<const ParameterGroup*> groups_of(const nn::Arena& arena,
                                             const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> names;
  for (const nn::PlacedParameter& placed : arena.parameters()) names.push_back(placed.name);
  std::vector<const ParameterGroup*> found(names.size());
  for (const ParameterGroup& group : groups) {
    RINGLET_CHECK(group.lr.value_or(0) >= 0 && group.weight_decay.value_or(0) >= 0,
                  "[optimizer] a group's lr and weight_decay: expected 0 or more, found ",
                  describe({group}));
    for (const std::string& pattern : group.parameters) {
      bool matched = false;
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (!nn::names_parameter(pattern, names[i])) continue;
        matched = true;
        if (!found[i]) found[i] = &group;
      }
      if (!matched) nn::fail_no_match("parameter", pattern, names);
    }
  }
  return found;
}

}  // namespace

OptimizerState::OptimizerState(nn::Module& module, const UpdateSettings& settings,
                               std::vector<std::string> moment_names)
    : names_(std::move(moment_names)),
      arena_(nn::pack(module)),
      slice_group_(nn::slice_group(module)) {
  RINGLET_CHECK(arena_->numel() > 0, "[optimizer] the module has no parameters");
  const std::vector<const ParameterGroup*> groups = groups_of(*arena_, settings.groups);
  for (const nn::PlacedParameter& placed : arena_->parameters()) {
    const ParameterGroup group =
        groups[entries_.size()] ? *groups[entries_.size()] : ParameterGroup{};
    const bool decays = decays_by_default(placed.name, placed.parameter.shape());
    entries_.push_back(
        {placed, group.lr, group.weight_decay.value_or(decays ? settings.weight_decay : 0)});
  }
  // From here on gradients are written into the arena. Each step requests the slices anew, so that
  // a strategy that comes later may take the memory.
  arena_->local_slices();
}

std::int64_t OptimizerState::largest_arena() const {
  std::int64_t end = arena_->numel();
  if (slice_group_.size() == 1) return end;
  for (int rank = 0; rank < slice_group_.size(); ++rank) {
    std::int64_t numel = 0;
    for (const nn::Unit& unit : arena_->units()) {
      for (const nn::PlacedParameter& placed : unit.parameters)
        numel += nn::numel_on(placed.parameter, rank);
      numel = (numel + kNormBlock - 1) / kNormBlock * kNormBlock;
    }
    end = std::max(end, numel);
  }
  return end;
}

void OptimizerState::prepare_step() {
  refresh_slices();
  check_parameters();
  make_moments();
  for (Entry& entry : entries_) entry.updated = entry.has_grad();
}

// A step without a backward, or a second one with the same gradients, is a mistake of the caller.
void OptimizerState::check_parameters() const {
  bool fresh = false;
  const Tensor& data = arena_->data();
  for (const Entry& entry : entries_) {
    const autograd::VariableState& state = *entry.placed.parameter.state();
    RINGLET_CHECK(!data.defined() || state.data.storage() == data.storage(), "[optimizer] '",
                  entry.placed.name,
                  "' was packed into another arena after its optimizer was made");
    RINGLET_CHECK(!state.has_grad || !state.partial, "[optimizer] the gradient of '",
                  entry.placed.name,
                  "' is not summed: run a step's last backward without no_sync, or discard it with "
                  "zero_grad()");
    fresh = fresh || (state.has_grad && !state.applied);
  }
  RINGLET_CHECK(fresh,
                "[optimizer] every gradient is missing or was used by an earlier step: call "
                "backward() before each step()");
}

void OptimizerState::refresh_slices() {
  std::vector<nn::LocalSlice> slices = arena_->local_slices();
  const auto range = [](const nn::LocalSlice& slice) { return std::pair(slice.begin, slice.end); };
  const bool same = std::ranges::equal(slices, slices_, {}, range, range);
  RINGLET_CHECK(same || moments_.empty(),
                "[optimizer] the arena was dealt out after the first step");
  slices_ = std::move(slices);
}

void OptimizerState::make_moments() {
  if (!moments_.empty()) return;
  for (const nn::LocalSlice& slice : slices_) {
    std::vector<Tensor>& tensors = moments_.emplace_back();
    for (std::size_t i = 0; i < names_.size(); ++i) tensors.push_back(zeros_like(slice.data));
  }
}

std::vector<OptimizerState::Span> OptimizerState::spans() const {
  std::vector<Span> spans;
  std::size_t slice = 0;
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    const std::int64_t begin = entries_[entry].placed.offset;
    const std::int64_t end = begin + entries_[entry].placed.numel();
    while (slice < slices_.size() && slices_[slice].end <= begin) ++slice;
    for (std::size_t i = slice; i < slices_.size() && slices_[i].begin < end; ++i)
      spans.push_back({entry, i, std::max(begin, slices_[i].begin), std::min(end, slices_[i].end)});
  }
  return spans;
}

Tensor OptimizerState::part(const Tensor& of_slice, const Span& span) const {
  const std::int64_t base = slices_[span.slice].begin;
  return of_slice.slice(span.begin - base, span.end - base);
}

OptimizerState::Indices OptimizerState::count_step() {
  Indices updated;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].updated) continue;
    updated.push_back(i);
    ++entries_[i].steps;
    autograd::VariableState& state = *entries_[i].placed.parameter.state();
    state.applied = state.has_grad;  // zero_grad may have come before
  }
  return updated;
}

void OptimizerState::undo(const Indices& updated) {
  for (const std::size_t i : updated) {
    --entries_[i].steps;
    entries_[i].placed.parameter.state()->applied = false;
  }
}

std::vector<OptimizerState::Named> OptimizerState::updates() const {
  std::vector<Named> states;
  for (const Entry& entry : entries_) states.push_back({entry.placed.name, entry.steps, {}});
  return states;
}

std::vector<OptimizerState::Named> OptimizerState::state() {
  std::vector<Named> states = updates();
  if (moments_.empty()) return states;
  for (const Span& span : spans()) {
    if (entries_[span.entry].steps == 0) continue;
    for (std::size_t i = 0; i < names_.size(); ++i)
      states[span.entry].moments.emplace_back(names_[i], part(moments_[span.slice][i], span));
  }
  return states;
}

// The parameter that a state belongs to, which it must fit.
std::size_t OptimizerState::entry_of(const Named& given) const {
  const auto entry = std::ranges::find_if(
      entries_, [&](const Entry& known) { return known.placed.name == given.name; });
  RINGLET_CHECK(entry != entries_.end(), "[optimizer] no parameter '", given.name, "'");
  RINGLET_CHECK(given.steps >= 0, "[optimizer] ", given.steps, " updates of ", given.name);
  if (given.steps > 0)
    RINGLET_CHECK_EQ(given.moments.size(), names_.size(), "[optimizer] moments of ", given.name);
  const Shape shape = entry->placed.parameter.shape();
  for (std::size_t i = 0; given.steps > 0 && i < names_.size(); ++i) {
    const auto& [name, value] = given.moments[i];
    RINGLET_CHECK_EQ(name, names_[i], "[optimizer] moment of ", given.name);
    RINGLET_CHECK(value.defined(), "[optimizer] ", name, " of ", given.name, ": expected shape ",
                  shape, ", found an undefined tensor");
    RINGLET_CHECK(value.shape() == shape || value.shape() == Shape{shape.numel()}, "[optimizer] ",
                  name, " of ", given.name, ": expected shape ", shape, ", found ", value.shape());
  }
  return static_cast<std::size_t>(entry - entries_.begin());
}

void OptimizerState::load(const std::vector<Named>& states) {
  std::vector<const Named*> given(entries_.size());
  for (const Named& state : states) given[entry_of(state)] = &state;
  local_moments();
  for (std::vector<Tensor>& tensors : moments_)
    for (Tensor& moment : tensors) moment.zero_();
  set_updates(states);
  for (const Span& span : spans()) {
    const Entry& entry = entries_[span.entry];
    if (entry.steps == 0) continue;
    const std::int64_t base = entry.placed.offset;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const Tensor whole = given[span.entry]->moments[i].second.view({-1});
      part(moments_[span.slice][i], span).copy_(whole.slice(span.begin - base, span.end - base));
    }
  }
}

void OptimizerState::set_updates(const std::vector<Named>& states) {
  for (Entry& entry : entries_) {
    const auto given = std::ranges::find(states, entry.placed.name, &Named::name);
    entry.steps = given == states.end() ? 0 : given->steps;
  }
}

}  // namespace ringlet::train
