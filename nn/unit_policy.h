// Which modules are units: laid out, reduced and sharded together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace ringlet::nn
