#include "ringlet/nn/arena.h"

#include <algorithm>
#include <set>

namespace ringlet::nn {
namespace {

bool is_below(const std::string& name, const std::string& path) {
  return name.starts_with(path + '.');
}

struct Place {
  std::string path;
  const Module* module;
};

// The modules that are units, in the order in which parameters are matched to them.
std::vector<Place> unit_places(Module& module, const UnitPolicy& policy) {
  std::vector<Place> units, all;
  module.visit([&](const std::string& path, Module& below) {
    const bool listed = std::find(policy.classes.begin(), policy.classes.end(), below.kind()) !=
                        policy.classes.end();
    if (policy.is_default() ? below.is_unit() : listed) units.push_back({path, &below});
    const bool renamed = !path.empty() && (all.empty() || all.back().path != path);
    if (renamed) all.push_back({path, &below});
  });
  if (policy.min_numel == 0) return units;
  std::vector<NamedParameter> left = module.named_parameters();
  const auto take = [&](const Place& unit) {
    std::erase_if(left, [&](const NamedParameter& one) { return is_below(one.name, unit.path); });
  };
  for (const Place& unit : units) take(unit);
  // Modules follow the modules that hold them, so the innermost are the last.
  for (auto place = all.rbegin(); place != all.rend(); ++place) {
    std::int64_t numel = 0;
    for (const NamedParameter& one : left)
      if (is_below(one.name, place->path)) numel += one.parameter.numel();
    if (numel < policy.min_numel) continue;
    units.push_back(*place);
    take(*place);
  }
  return units;
}

// The parameters below `module`, divided into units.
std::vector<Unit> cut_units(Module& module, const UnitPolicy& policy) {
  std::vector<Unit> units;
  const std::vector<Place> places = unit_places(module, policy);
  const auto unit_of = [&](const std::string& name) -> Place {
    for (const Place& place : places)
      if (is_below(name, place.path)) return place;
    const auto dot = name.rfind('.');
    return {dot == std::string::npos ? std::string() : name.substr(0, dot), nullptr};
  };
  for (const NamedParameter& named : module.named_parameters()) {
    const Place place = unit_of(named.name);
    auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& known) {
      return known.name == place.path && known.layer == place.module;
    });
    if (unit == units.end())
      unit = units.insert(units.end(), Unit{place.path, 0, 0, {}, place.module});
    unit->slots.push_back({named.name, named.parameter, 0});
  }
  return units;
}

bool same_units(const std::vector<Unit>& a, std::span<const Unit> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Unit& x, const Unit& y) {
    return x.name == y.name && x.layer == y.layer && x.slots.size() == y.slots.size();
  });
}

std::int64_t round_up(std::int64_t n) { return (n + kNormBlock - 1) / kNormBlock * kNormBlock; }

bool already_packed(const Arena& arena, const std::vector<NamedParameter>& parameters) {
  std::set<const void*> packed;
  for (const Unit& unit : arena.units())
    for (const Slot& slot : unit.slots) packed.insert(slot.parameter.state().get());
  if (packed.size() != parameters.size()) return false;
  for (const NamedParameter& named : parameters) {
    if (!packed.contains(named.parameter.state().get())) return false;
    const bool elsewhere = !arena.data().defined();  // sharded, or only planned
    if (!elsewhere && named.parameter.tensor().storage() != arena.data().storage()) return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<Arena> plan(Module& module, const UnitPolicy& policy) {
  const std::vector<NamedParameter> parameters = module.named_parameters();
  if (module.arena_ && already_packed(*module.arena_, parameters)) {
    if (policy.is_default() || same_units(cut_units(module, policy), module.arena_->units()))
      return module.arena_;
    RINGLET_CHECK(!module.arena_->data().defined() && !module.arena_->sharding(),
                  "[pack] the module was cut into other units than are asked for now; choose them "
                  "before its optimizer and its strategy are made");
  }

  auto arena = std::make_shared<Arena>();
  arena->units_ = cut_units(module, policy);
  std::int64_t end = 0;
  for (Unit& unit : arena->units_) {
    unit.begin = end;
    for (Slot& slot : unit.slots) {
      slot.offset = end;
      end += slot.numel();
    }
    unit.end = end;
    end = round_up(end);
  }
  arena->numel_ = end;
  for (const NamedParameter& named : parameters) {
    const Parameter &first = parameters.front().parameter, &one = named.parameter;
    RINGLET_CHECK(one.dtype() == first.dtype() && one.device() == first.device(), "[pack] ",
                  named.name, " is ", one.dtype(), " on ", one.device(), ", ",
                  parameters.front().name, " is ", first.dtype(), " on ", first.device());
  }
  return module.arena_ = arena;
}

std::shared_ptr<Arena> pack(Module& module) {
  std::shared_ptr<Arena> arena = plan(module);
  if (arena->data_.defined() || arena->sharding_ || arena->numel_ == 0) return arena;
  const Tensor& first = arena->units_.front().slots.front().parameter.tensor();
  arena->data_ = empty({arena->numel_}, first.dtype(), first.device());
  arena->data_.zero_();  // norms include the padding
  for (const Unit& unit : arena->units_) {
    for (const Slot& slot : unit.slots) {
      Tensor place = arena->data_.slice(slot.offset, slot.offset + slot.numel());
      place.copy_(slot.parameter.tensor());
      slot.parameter.set_tensor(place.view(slot.parameter.shape()));
    }
  }
  return arena;
}

const Tensor& Arena::grad() {
  if (grad_.defined() || !data_.defined()) return grad_;
  grad_ = zeros_like(data_);
  for (const Unit& unit : units_)
    for (const Slot& slot : unit.slots)
      slot.parameter.set_grad_buffer(
          grad_.slice(slot.offset, slot.offset + slot.numel()).view(slot.parameter.shape()));
  return grad_;
}

void Arena::drop_grad() {
  grad_ = Tensor();
  for (const Unit& unit : units_) {
    for (const Slot& slot : unit.slots) {
      slot.parameter.state()->grad_buffer = Tensor();
      slot.parameter.zero_grad();
    }
  }
}

std::shared_ptr<Sharding> sharding_of(const Module& module) {
  const std::vector<Parameter> parameters = module.parameters();
  if (parameters.empty()) return nullptr;
  return std::dynamic_pointer_cast<Sharding>(parameters.front().state()->observer.lock());
}

Tensor WholeParameters::operator()(const Parameter& parameter) {
  if (!sharding_) return parameter.tensor();
  const auto [unit, slot] = sharding_->find(parameter);
  if (unit != unit_) {
    whole_ = Tensor();  // only one unit is whole at a time
    whole_ = sharding_->whole_unit(*unit);
    unit_ = unit;
  }
  const std::int64_t begin = slot->offset - unit->begin;
  return whole_.slice(begin, begin + slot->numel()).view(parameter.shape());
}

std::vector<LocalSlice> Arena::local_slices() {
  if (sharding_) return sharding_->local_slices();
  if (!data_.defined()) return {};
  return {{0, numel(), data_, grad()}};
}

}  // namespace ringlet::nn
