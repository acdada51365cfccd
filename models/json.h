// JSON files of model folders, read strictly: what is wrong is said with the file and the key.
// For source files only; no public header includes it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "ringlet/core/error.h"
#include "ringlet/core/file.h"
#include "ringlet/core/quote.h"

namespace ringlet::models {

/// The object in a file; InputError when it is not JSON or not an object.
inline nlohmann::json parse_json_file(const std::filesystem::path& path) {
  auto j = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) fail_input(path.string(), ": expected a JSON object");
  return j;
}

/// j[key] as T; InputError when it is missing or of another type.
template <class T>
T get(const nlohmann::json& j, const char* key, const std::string& source) {
  const auto found = j.find(key);
  if (found == j.end()) fail_input(source, ": ", quote(key), " is missing");
  try {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      if (!found->is_number_integer()) throw std::invalid_argument("integer");
    }
    return found->template get<T>();
  } catch (const std::exception&) {
    fail_input(source, ": ", quote(key), " has the wrong type: ", shown(found->dump()));
  }
}

template <class T>
T get_or(const nlohmann::json& j, const char* key, T fallback, const std::string& source) {
  const auto found = j.find(key);
  return found == j.end() || found->is_null() ? fallback : get<T>(j, key, source);
}

}  // namespace ringlet::models
