// Which modules are units: laid out, reduced and sharded together.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// Selects the modules that are units; by default those with Module::is_unit.
struct UnitPolicy {
  /// Instead, modules of these classes (Module::kind), each of which must be there; a unit inside
  /// another is part of that.
  std::vector<std::string> classes = {};
  /// Also, from the innermost outwards, every module below the root with at least this many
  /// elements in parameters outside its inner units; 0: none. With classes, applies to the
  /// remaining parameters.
  std::int64_t min_numel = 0;

  bool is_default() const { return classes.empty() && min_numel == 0; }
};

struct UnitModule {
  std::string path;
  const Module* module;
  bool holds(const std::string& parameter) const { return parameter.starts_with(path + '.'); }
};

/// InputError with the classes below `module` unless the policy's are among them.
inline void check_classes(Module& module, const UnitPolicy& policy) {
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
inline std::vector<UnitModule> unit_modules(Module& module, const UnitPolicy& policy) {
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

}  // namespace ringlet::nn
