// Tests that `scripts/test.sh all` runs longer than `scripts/test.sh`: meson.build has its setups.
//
//   for (const int ranks : grid({2, 3}, {4, 6, 12}))
#pragma once

#include <utility>
#include <vector>

namespace ringlet {

/// Whether RINGLET_EXTENDED_TESTS is set.
bool is_extended();

/// `always`, followed by `extended` in an extended run.
template <class T>
std::vector<T> grid(std::vector<T> always, const std::vector<T>& extended) {
  if (is_extended()) always.insert(always.end(), extended.begin(), extended.end());
  return always;
}
inline std::vector<int> grid(std::vector<int> always, const std::vector<int>& extended) {
  return grid<int>(std::move(always), extended);
}

}  // namespace ringlet
