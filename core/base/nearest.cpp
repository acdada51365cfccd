#include "ringlet/core/base/nearest.h"

#include <algorithm>

namespace ringlet {
namespace {

/// Edits from a to b; a swap of two neighbours counts as one (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * width + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

std::vector<std::string> nearest(std::string_view name, std::span<const std::string> known) {
  std::vector<std::string> best;
  std::size_t fewest = name.size() / 3;
  for (const std::string& candidate : known) {
    const std::size_t edits = distance(name, candidate);
    if (edits > fewest) continue;
    if (edits < fewest) best.clear();
    fewest = edits;
    best.push_back(candidate);
  }
  return best;
}

}  // namespace ringlet
