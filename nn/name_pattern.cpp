#include "ringlet/nn/name_pattern.h"

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

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

bool names_parameter(std::string_view pattern, std::string_view name) {
  while (!names_layer(pattern, name)) {
    const std::size_t dot = name.rfind('.');
    if (dot == name.npos) return false;
    name = name.substr(0, dot);
  }
  return true;
}

namespace {

// The names with numbers as '*', each once.
std::string candidates(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> forms;
  for (const std::string& name : names) {
    std::string form;
    for (const std::string_view part : parts_of(name))
      form += (form.empty() ? "" : ".") + std::string(parse_number<int>(part) ? "*" : part);
    if (std::ranges::find(forms, form) == forms.end()) forms.push_back(std::move(form));
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, forms.size()); ++i)
    text += (i == 0 ? "" : ", ") + forms[i];
  return forms.size() > kMost ? str(text, " and ", forms.size() - kMost, " more") : text;
}

}  // namespace

void fail_no_match(const char* what, const std::string& pattern,
                   const std::vector<std::string>& names) {
  const std::vector<std::string> near = nearest(pattern, names);
  fail("[module] no ", what, " '", pattern, "'", near.empty() ? "; there are: " : "; near: ",
       near.empty() ? candidates(names) : near.front());
}

}  // namespace ringlet::nn
