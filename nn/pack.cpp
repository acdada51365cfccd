#include "ringlet/nn/pack.h"

#include <algorithm>
#include <set>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::nn {
namespace {

struct UnitModule {
  std::string path;
  const Module* module;
  bool holds(const std::string& parameter) const { return parameter.starts_with(path + '.'); }
};

/// InputError with the classes below `module` unless the policy's are among them.
void check_classes(Module& module, const UnitPolicy& policy) {
  std::set<std::string> classes;
  module.visit([&](const std::string& path, Module& below) {
    if (!path.empty()) classes.insert(below.kind());
  });
  std::string names;
  for (const std::string& name : classes) names += (names.empty() ? "" : ", ") + name;
  for (const std::string& name : policy.classes)
    if (!classes.contains(name))
      fail_setting("fsdp_units", ": no module is a ", quote(name), "; expected some of ", names);
}

/// The modules below `module` that are units. A parameter belongs to the first that holds it.
std::vector<UnitModule> unit_modules(Module& module, const UnitPolicy& policy) {
  check_classes(module, policy);
  std::vector<UnitModule> units, all;
  module.visit([&](const std::string& path, Module& below) {
    const bool listed = std::ranges::count(policy.classes, below.kind()) > 0;
    if (policy.is_default() ? below.is_unit() : listed) units.push_back({path, &below});
    if (!path.empty() && (all.empty() || all.back().path != path)) all.push_back({path, &below});
  });
  if (policy.min_numel == 0) return units;
  std::vector<NamedParameter> left = module.named_parameters();
  const auto take = [&](const UnitModule& unit) {
    std::erase_if(left, [&](const NamedParameter& one) { return unit.holds(one.name); });
  };
  for (const UnitModule& unit : units) take(unit);
  // Modules follow the modules that hold them, so the innermost are the last.
  for (auto unit = all.rbegin(); unit != all.rend(); ++unit) {
    std::int64_t numel = 0;
    for (const NamedParameter& one : left)
      if (unit->holds(one.name)) numel += one.parameter.numel();
    if (numel < policy.min_numel) continue;
    units.push_back(*unit);
    take(*unit);
  }
  return units;
}

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
    RINGLET_CHECK(!arena->is_packed() && !arena->sharding(),
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

Device device_of(const Unit& unit) {
  const Parameter& first = unit.parameters.front().parameter;
  for (const PlacedParameter& placed : unit.parameters)
    RINGLET_CHECK(placed.parameter.device() == first.device(), "[pack] ", placed.name, " is on ",
                  placed.parameter.device(), ", ", unit.parameters.front().name,
                  " of the same unit on ", first.device());
  return first.device();
}

/// Moves the parameters of `units` into one tensor, elements [begin, end) of their arena.
Tensor take_units(std::span<const Unit> units, std::int64_t begin, std::int64_t end) {
  const Parameter& first = units.front().parameters.front().parameter;
  Tensor data = zeros({end - begin}, first.dtype(), first.device());  // norms include the padding
  for (const Unit& unit : units)
    for (const PlacedParameter& placed : unit.parameters) {
      Tensor place = placed.in(data, begin);
      place.copy_(placed.parameter.tensor());
      placed.parameter.set_tensor(place);
    }
  return data;
}

}  // namespace

std::shared_ptr<Arena> plan(Module& module, const UnitPolicy& policy) {
  return lay_out(module, policy, /*one_device=*/true);
}

std::shared_ptr<Arena> pack(Module& module) {
  std::shared_ptr<Arena> arena = lay_out(module, {}, /*one_device=*/false);
  if (!arena->is_packed() && !arena->sharding() && arena->numel() > 0) arena->take_data();
  return arena;
}

void Arena::take_data() {
  const std::span<const Unit> units = units_;
  std::vector<Device> devices;
  for (const Unit& unit : units) devices.push_back(device_of(unit));
  if (std::ranges::count(devices, devices.front()) == std::ssize(devices)) {
    data_ = take_units(units, 0, numel_);
    return;
  }
  for (std::size_t first = 0, last = 0; first < units.size(); first = last) {
    while (last < units.size() && devices[last] == devices[first]) ++last;
    take_part(units.subspan(first, last - first), last < units.size() ? units[last].begin : numel_);
  }
}

void Arena::take_part(std::span<const Unit> units, std::int64_t end) {
  const std::int64_t begin = units.front().begin;
  const Tensor data = take_units(units, begin, end), grad = zeros_like(data);
  parts_.push_back({begin, end, data, grad});
  for (const Unit& unit : units)
    for (const PlacedParameter& placed : unit.parameters)
      placed.parameter.set_grad_buffer(placed.in(grad, begin));
}

std::vector<LocalSlice> Arena::local_slices() {
  if (sharding_) return sharding_->local_slices();
  if (data_.defined()) return {{0, numel(), data_, grad()}};
  auto part = parts_.begin();
  for (const PlacedParameter& placed : parameters()) {
    if (parts_.empty()) break;
    while (part->end <= placed.offset) ++part;
    RINGLET_CHECK(placed.parameter.tensor().storage() == part->data.storage(), "[pack] '",
                  placed.name, "' was packed into another arena");
  }
  return parts_;
}

}  // namespace ringlet::nn
