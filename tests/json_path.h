// Values inside of JSON by their path.
#pragma once

#include <string>

#include "ringlet/core/io/json.h"

namespace ringlet {

/// The value at a path such as "/model/merges/0"; a last key that is missing is added.
inline Json& value_at(Json& json, const std::string& path) {
  if (path.empty()) return json;
  const std::size_t slash = path.rfind('/');
  Json& parent = value_at(json, path.substr(0, slash));
  const std::string key = path.substr(slash + 1);
  return parent.is_array() ? parent.at(std::stoul(key)) : parent[key];
}

}  // namespace ringlet
