#include "ringlet/core/base/names.h"

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet {

std::size_t find_name(const char* what, std::string_view name,
                      std::span<const std::string_view> names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    fail_input("unknown ", what, ' ', quote(name), "; expected ", list_names(names));
  return static_cast<std::size_t>(found - names.begin());
}

std::string list_names(std::span<const std::string_view> names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i)
    list += str(i == 0 ? "" : i + 1 < names.size() ? ", " : " or ", names[i]);
  return list;
}

}  // namespace ringlet
