// Which parameters are packed, and into which units.
#include <algorithm>
#include <set>

#include "ringlet/nn/device_parts.h"
#include "ringlet/nn/place.h"

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

std::shared_ptr<Arena> lay_out(Module& module, const UnitPolicy& policy, bool one_device) {
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
    RINGLET_CHECK(one.dtype() == first.dtype() && (!one_device || one.device() == first.device()),
                  "[pack] ", named.name, " is ", one.dtype(), " on ", one.device(), ", ",
                  parameters.front().name, " is ", first.dtype(), " on ", first.device());
  }
  module.set_arena(std::make_shared<Arena>(cut_units(module, policy)));
  return module.arena();
}

}  // namespace

std::shared_ptr<Arena> plan(Module& module, const UnitPolicy& policy) {
  return lay_out(module, policy, /*one_device=*/true);
}

std::shared_ptr<Arena> pack(Module& module) {
  std::shared_ptr<Arena> arena = lay_out(module, {}, /*one_device=*/false);
  if (arena->data().defined() || arena->sharding() || arena->numel() == 0) return arena;
  if (on_several_devices(module)) {
    arena->set_sharding(std::make_shared<DeviceParts>(*arena));
  } else {
    arena->take_data();
  }
  return arena;
}

}  // namespace ringlet::nn
