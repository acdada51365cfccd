#include "ringlet/nn/arena.h"

#include <algorithm>
#include <set>

namespace ringlet::nn {
namespace {

// The parameters below `module`, divided into units.
std::vector<Unit> cut_units(Module& module, const UnitPolicy& policy) {
  std::vector<Unit> units;
  const std::vector<UnitModule> modules = unit_modules(module, policy);
  const auto module_of = [&](const std::string& name) -> UnitModule {
    for (const UnitModule& unit : modules)
      if (unit.holds(name)) return unit;
    const auto dot = name.rfind('.');
    return {dot == std::string::npos ? std::string() : name.substr(0, dot), nullptr};
  };
  for (const NamedParameter& named : module.named_parameters()) {
    const UnitModule owner = module_of(named.name);
    auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& known) {
      return known.name == owner.path && known.layer == owner.module;
    });
    if (unit == units.end())
      unit = units.insert(units.end(), Unit{owner.path, 0, 0, {}, owner.module});
    unit->parameters.push_back({named.name, named.parameter, 0});
  }
  return units;
}

bool same_units(const std::vector<Unit>& a, std::span<const Unit> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Unit& x, const Unit& y) {
    return x.name == y.name && x.layer == y.layer && x.parameters.size() == y.parameters.size();
  });
}

std::int64_t round_up(std::int64_t n) { return (n + kNormBlock - 1) / kNormBlock * kNormBlock; }

// Whether the arena has these parameters and no others, in its memory if it has some.
bool already_packed(const Arena& arena, const std::vector<NamedParameter>& parameters) {
  std::set<const void*> packed;
  for (const PlacedParameter& placed : arena.parameters())
    packed.insert(placed.parameter.state().get());
  for (const NamedParameter& named : parameters) {
    if (packed.erase(named.parameter.state().get()) == 0) return false;
    const bool elsewhere = !arena.data().defined();  // sharded, or only planned
    if (!elsewhere && named.parameter.tensor().storage() != arena.data().storage()) return false;
  }
  return packed.empty();
}

}  // namespace

std::shared_ptr<Arena> plan(Module& module, const UnitPolicy& policy) {
  const std::vector<NamedParameter> parameters = module.named_parameters();
  if (const std::shared_ptr<Arena>& arena = module.arena();
      arena && already_packed(*arena, parameters)) {
    if (policy.is_default() || same_units(cut_units(module, policy), arena->units())) return arena;
    RINGLET_CHECK(!arena->data().defined() && !arena->sharding(),
                  "[pack] the module was cut into other units than are asked for now; choose them "
                  "before its optimizer and its strategy are made");
  }
  for (const NamedParameter& named : parameters) {
    const Parameter &first = parameters.front().parameter, &one = named.parameter;
    RINGLET_CHECK(one.dtype() == first.dtype() && one.device() == first.device(), "[pack] ",
                  named.name, " is ", one.dtype(), " on ", one.device(), ", ",
                  parameters.front().name, " is ", first.dtype(), " on ", first.device());
  }
  module.set_arena(std::make_shared<Arena>(cut_units(module, policy)));
  return module.arena();
}

std::shared_ptr<Arena> pack(Module& module) {
  std::shared_ptr<Arena> arena = plan(module);
  if (!arena->data().defined() && !arena->sharding() && arena->numel() > 0) arena->take_data();
  return arena;
}

Arena::Arena(std::vector<Unit> units) : units_(std::move(units)) {
  for (Unit& unit : units_) {
    std::int64_t end = unit.begin = numel_;
    for (PlacedParameter& placed : unit.parameters) {
      placed.offset = end;
      end += placed.numel();
    }
    unit.end = end;
    numel_ = round_up(end);
  }
}

std::vector<std::reference_wrapper<const PlacedParameter>> Arena::parameters() const {
  std::vector<std::reference_wrapper<const PlacedParameter>> all;
  for (const Unit& unit : units_)
    all.insert(all.end(), unit.parameters.begin(), unit.parameters.end());
  return all;
}

void Arena::take_data() {
  const Parameter& first = units_.front().parameters.front().parameter;
  data_ = empty({numel_}, first.dtype(), first.device());
  data_.zero_();  // norms include the padding
  for (const PlacedParameter& placed : parameters()) {
    Tensor place = placed.in(data_);
    place.copy_(placed.parameter.tensor());
    placed.parameter.set_tensor(place);
  }
}

const Tensor& Arena::grad() {
  if (grad_.defined() || !data_.defined()) return grad_;
  grad_ = zeros_like(data_);
  for (const PlacedParameter& placed : parameters())
    placed.parameter.set_grad_buffer(placed.in(grad_));
  return grad_;
}

void Arena::drop_grad() {
  grad_ = Tensor();
  for (const PlacedParameter& placed : parameters()) {
    placed.parameter.state()->grad_buffer = Tensor();
    placed.parameter.zero_grad();
  }
}

std::vector<LocalSlice> Arena::local_slices() {
  if (sharding_) return sharding_->local_slices();
  if (!data_.defined()) return {};
  return {{0, numel(), data_, grad()}};
}

}  // namespace ringlet::nn
