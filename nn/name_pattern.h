// Patterns of dotted names: "encoder.layer.*.attention.attn.q", "layer.0-5".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringlet::nn {

/// Whether the last parts of `name`, or all, fit the pattern. The part '*' fits any, "0-5" any
/// number from 0 to 5.
bool names_layer(std::string_view pattern, std::string_view name);

/// Whether the pattern names a parameter or one of the modules that it is in.
bool names_parameter(std::string_view pattern, std::string_view name);

/// Error: no `what` fits the pattern. It has the nearest of `names`, or all with numbers as '*'.
[[noreturn]] void fail_no_match(const char* what, const std::string& pattern,
                                const std::vector<std::string>& names);

}  // namespace ringlet::nn
