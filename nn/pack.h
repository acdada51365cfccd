// Which modules are units, laid out, reduced and sharded together; and the arena of a module's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/nn/arena.h"

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

/// Moves all parameters below `module` into one arena: units in the module's order, parameters in
/// the order of registration. Parameters outside every unit form the unit of the module that owns
/// them. All must be f32 (or all f64). Units on several devices have a slice for each run on one
/// device instead. Idempotent: a packed module keeps its arena. Packing one of its parents makes
/// another arena, into which the parameters move.
std::shared_ptr<Arena> pack(Module& module);
/// The layout that pack would make on one device, without memory for it: parameters stay in place
/// until a strategy moves them. A packed module keeps its arena; Error if `policy` requests other
/// units than it has, or if parameters are on several devices.
std::shared_ptr<Arena> plan(Module& module, const UnitPolicy& policy = {});

}  // namespace ringlet::nn
