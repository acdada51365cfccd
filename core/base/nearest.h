// Suggestions for a misspelt name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringlet {

/// The known names with the fewest edits (a letter inserted, dropped, changed or swapped), if those
/// are at most a third of the name's length; empty otherwise.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string> known);

}  // namespace ringlet
