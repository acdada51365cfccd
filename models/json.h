// JSON files of model folders, read strictly: what is wrong is said with the file and the key.
// For source files only; no public header includes it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/tokenizer/json_node.h"

namespace ringlet::models {

/// An object of a JSON file that records which keys were read. Messages can then name the keys
/// without effect. `source` begins every message.
class JsonObject {
 public:
  /// InputError where the value, or the text of the file, is no object.
  JsonObject(nlohmann::json object, std::string source)
      : object_(std::move(object)), source_(std::move(source)) {
    if (!object_.is_object()) fail_input(source_, ": expected a JSON object");
  }
  explicit JsonObject(const std::filesystem::path& path)
      : JsonObject(read_json(path), path.string()) {}

  const std::string& source() const { return source_; }
  bool empty() const { return object_.empty(); }
  /// True for a key with a value other than null.
  bool has(const std::string& key) {
    known_.insert(key);
    const auto found = object_.find(key);
    return found != object_.end() && !found->is_null();
  }
  /// The value as T; InputError when it is missing or of another type.
  template <class T>
  T get(const std::string& key) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found == object_.end()) fail_input(source_, ": ", quote(key), " is missing");
    try {
      if constexpr (std::is_same_v<T, std::int64_t>) {
        if (!found->is_number_integer()) throw std::invalid_argument("integer");
      }
      return found->template get<T>();
    } catch (const std::exception&) {
      fail_input(source_, ": ", quote(key), " has the wrong type: ", shown(found->dump()));
    }
  }
  template <class T>
  T get_or(const std::string& key, T fallback) {
    return has(key) ? get<T>(key) : fallback;
  }
  /// A setting that is followed only where it is `value`, the default; InputError for another.
  void require(const std::string& key, const nlohmann::json& value) {
    if (has(key) && object_[key] != value)
      fail_input(source_, ": ", key, " ", shown(object_[key].dump()),
                 " is not supported; expected ", value.dump());
  }
  /// Keys that change no result here.
  void ignore(std::span<const char* const> keys) { known_.insert(keys.begin(), keys.end()); }

  /// Appends "FILE: 'key'" for each key that no call above named, except null values.
  void name_unused(std::vector<std::string>& names) const {
    for (const auto& [key, value] : object_.items())
      if (!known_.contains(key) && !value.is_null()) names.push_back(source_ + ": " + quote(key));
  }
  /// For files with the arguments of a Python class: InputError names an unused key.
  void refuse_unused() const {
    std::vector<std::string> names;
    name_unused(names);
    if (!names.empty()) fail_input(names.front(), " is not a known key");
  }

 private:
  nlohmann::json object_;
  std::string source_;
  std::set<std::string> known_;
};

}  // namespace ringlet::models
