#include "ringlet/nn/name_pattern.h"

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/nearest.h"
#include "ringlet/core/base/number.h"

namespace ringlet::nn {
namespace {

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = name.find('.')) != name.npos; name.remove_prefix(end + 1))
    parts.push_back(name.substr(0, end));
  parts.push_back(name);
  return parts;
}

bool fits(std::string_view pattern, std::string_view part) {
  if (pattern == "*" || pattern == part) return true;
  const std::size_t dash = pattern.find('-');
  if (dash == pattern.npos) return false;
  const auto low = parse_number<int>(pattern.substr(0, dash));
  const auto high = parse_number<int>(pattern.substr(dash + 1));
  const auto number = parse_number<int>(part);
  return low && high && number && *low <= *number && *number <= *high;
}

}  // namespace

bool names_layer(std::string_view pattern, std::string_view name) {
  const std::vector<std::string_view> wanted = parts_of(pattern), given = parts_of(name);
  return wanted.size() <= given.size() &&
         std::equal(wanted.rbegin(), wanted.rend(), given.rbegin(), fits);
}

void fail_no_match(const char* what, const std::string& pattern,
                   const std::vector<std::string>& names) {
  const std::vector<std::string> near = nearest(pattern, names);
  fail("[module] no ", what, " '", pattern, "'",
       near.empty() ? "" : "; near: ", near.empty() ? "" : near.front());
}

}  // namespace ringlet::nn
