#include "ringlet/train/parallel/model/stage_sharding.h"

#include <algorithm>
#include <set>

#include "ringlet/comm/rows.h"
#include "ringlet/train/parallel/same_module.h"

namespace ringlet::train {

void StageUnits::add(const nn::Unit& unit) {
  if (unit.layer) {
    register_module(unit.name, std::const_pointer_cast<nn::Module>(unit.layer->shared_from_this()));
    return;
  }
  for (const nn::PlacedParameter& slot : unit.parameters)
    register_parameter(slot.name, slot.parameter);
}

StageSharding::StageSharding(nn::Module& module, const nn::UnitPolicy& units,
                             const std::function<Place(const nn::Unit&)>& place_of,
                             const Mesh& mesh, DType compute_dtype)
    : nn::Sharding(*nn::plan(module, units), mesh.world, mesh.data),
      module_(module),
      pipe_(mesh.pipe),
      stage_(std::make_shared<StageModule>(compute_dtype)),
      units_(units) {
  RINGLET_CHECK(!arena_->sharding() && !arena_->is_packed(),
                "[pipeline] the module has an optimizer or a strategy already");
  for (const nn::Unit& unit : arena_->units()) {
    const State& state = states_.emplace_back(State{&unit, place_of(unit)});
    if (state.place.rank == pipe_.rank())
      (state.place.everywhere ? *stage_ : stage_->layers()).add(unit);
  }
  broadcast();
  for (const State& state : states_)
    if (state.place.rank != pipe_.rank()) keep_shapes(state);
}

void StageSharding::broadcast() const {
  check_same_module("pipeline", module_, pipe_);
  for (const auto& [name, buffer] : module_.named_buffers()) pipe_.broadcast(buffer, 0).wait();
  for (const State& state : states_)
    for (const nn::PlacedParameter& slot : state.unit->parameters)
      pipe_.broadcast(slot.parameter.mutable_tensor(), 0).wait();
}

/// Releases the memory of another stage's parameters.
void StageSharding::keep_shapes(const State& state) const {
  for (const nn::PlacedParameter& slot : state.unit->parameters) {
    const Tensor& data = slot.parameter.tensor();
    const auto no_bytes = [&](const char* what) {
      const auto bytes = std::make_shared<Storage>(
          data.nbytes(), data.device(),
          str("[pipeline] ", what, " of '", slot.name, "' is on the ranks of another stage"));
      return Tensor(bytes, 0, data.shape(), data.dtype());
    };
    slot.parameter.set_grad_buffer(no_bytes("the gradient"));
    slot.parameter.set_tensor(state.place.everywhere ? data.clone() : no_bytes("the value"));
  }
}

nn::UnitPolicy StageSharding::stage_units() const {
  std::set<std::string> here;
  stage_->visit([&](const std::string&, nn::Module& below) { here.insert(below.kind()); });
  nn::UnitPolicy units = units_;
  std::erase_if(units.classes, [&](const std::string& name) { return !here.contains(name); });
  return units;
}

void StageSharding::attach(std::shared_ptr<const void> strategy) {
  strategy_ = std::move(strategy);
  data_ = stage_->arena()->sharding();
  RINGLET_CHECK(data_, "[pipeline] the stage has no strategy");
  data_->allow_unused();
  average_ = data_->averages();
  const std::span<const nn::Unit> mine = stage_->arena()->units();
  for (State& state : states_) {
    const auto found = std::ranges::find(mine, state.unit->name, &nn::Unit::name);
    if (state.place.rank == pipe_.rank()) {
      RINGLET_CHECK(found != mine.end(), "[pipeline] '", state.unit->name,
                    "' is no unit of its stage");
      state.mine = &*found;
    }
    for (const nn::PlacedParameter& slot : state.unit->parameters)
      slot.parameter.state()->observer = weak_from_this();
  }
  arena_->set_sharding(shared_from_this());
  hook_stage();
  for (const State& state : states_)
    if (state.place.everywhere) share(state);
}

// The modules around the stage's units enter the stage. Their hooks keep this and the arena alive.
void StageSharding::hook_stage() {
  std::set<const nn::Module*> inner;
  stage_->visit([&](const std::string&, nn::Module& below) { inner.insert(&below); });
  const auto enter = [self = shared_from_this(), arena = module_.arena()](auto hook) {
    return [self, arena, hook](nn::Module&) {
      if (const auto& call = self->stage_->strategy_hooks().*hook) call(*self->stage_);
    };
  };
  module_.visit([&](const std::string&, nn::Module& below) {
    if (!inner.contains(&below))
      below.set_strategy_hooks({enter(&nn::ModuleHooks::pre_forward),
                                enter(&nn::ModuleHooks::post_forward),
                                {},
                                enter(&nn::ModuleHooks::forward_failed)});
  });
}

void StageSharding::share_reached() {
  std::string mine;
  for (const State& state : states_)
    for (const nn::PlacedParameter& slot : state.unit->parameters)
      mine += slot.parameter.state()->has_grad ? '1' : '0';
  const std::vector<std::string> all = pipe_.all_gather_bytes(mine);
  std::size_t i = 0;
  for (const State& state : states_)
    for (const nn::PlacedParameter& slot : state.unit->parameters) {
      const bool reached = all[static_cast<std::size_t>(state.place.rank)][i++] == '1';
      if (state.mine) continue;
      slot.parameter.state()->has_grad = reached;
      slot.parameter.state()->applied = false;
    }
}

// ---- for optimizers and savers ------------------------------------------------------------

std::vector<nn::LocalSlice> StageSharding::local_slices() {
  const std::vector<nn::LocalSlice> theirs = data_->local_slices();
  std::vector<nn::LocalSlice> slices;
  for (const State& state : states_) {
    if (!state.mine) continue;
    const std::int64_t shift = state.unit->begin - state.mine->begin;
    for (const nn::LocalSlice& slice : theirs) {
      const std::int64_t begin = std::max(slice.begin, state.mine->begin);
      const std::int64_t end = std::min(slice.end, state.mine->end);
      if (begin >= end) continue;
      const auto part = [&](const Tensor& whole) {
        return whole.slice(begin - slice.begin, end - slice.begin);
      };
      slices.push_back({begin + shift, end + shift, part(slice.data), part(slice.grad)});
    }
  }
  return slices;
}

void StageSharding::gather_norm_blocks(Tensor& blocks) {
  data_->gather_norm_blocks(blocks);
  comm::all_reduce_filled(pipe_, blocks);
}

void StageSharding::after_step(bool all) {
  data_->after_step(all);
  for (const State& state : states_)
    if (state.place.everywhere) share(state);
}

/// Copies a unit from its stage to the others.
void StageSharding::share(const State& state) {
  const Tensor whole = whole_unit(*state.unit);
  if (state.mine) return;
  for (const nn::PlacedParameter& slot : state.unit->parameters)
    slot.parameter.mutable_tensor().copy_(slot.in(whole, state.unit->begin));
}

Tensor StageSharding::whole_unit(const nn::Unit& unit) {
  const State& state = state_of(unit);
  const nn::Parameter& first = unit.parameters.front().parameter;
  const Tensor whole = state.mine ? data_->whole_unit(*state.mine)
                                  : empty({unit.end - unit.begin}, first.dtype(), first.device());
  pipe_.broadcast(whole, state.place.rank).wait();
  return whole;
}

void StageSharding::assign(const nn::Parameter& parameter, const Tensor& value) {
  check_shape("assign", parameter.name().c_str(), value, parameter.shape());
  const State& state = state_of(*arena_->find(parameter).first);
  if (state.mine) {
    data_->assign(parameter, value);
  } else if (state.place.everywhere) {
    parameter.mutable_tensor().copy_(value);
  }
}

}  // namespace ringlet::train
