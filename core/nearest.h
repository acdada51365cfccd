// Guesses what a misspelt name was meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringlet {

/// The known names with the fewest letters to insert, drop, change or swap, if those are at most a
/// third of the name; empty otherwise.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string> known);

}  // namespace ringlet
