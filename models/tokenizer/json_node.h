// JSON of a tokenizer's files, with errors that name the file and the path in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::models {

inline constexpr std::int64_t kMostIds = std::numeric_limits<std::int32_t>::max();

/// Parses the text of the file `source`; InputError says what the file is if it is no JSON.
nlohmann::json parse_json(std::string_view text, const std::string& source);
nlohmann::json read_json(const std::filesystem::path& path);

/// A value inside a file, with its path of keys for messages.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, const std::string& source, std::string where)
      : value_(value), source_(source), where_(std::move(where)) {}

  [[noreturn]] void expected(std::string_view what) const {
    const std::string text = value_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    constexpr std::size_t kShort = 40;
    const bool long_list = value_.is_structured() && text.size() > kShort;
    const std::string got = long_list ? value_.type_name() : shown(text);
    if (where_.empty()) fail_input(source_, ": expected ", what, ", got ", got);
    fail_input(source_, ": ", where_, ": expected ", what, ", got ", got);
  }

  const nlohmann::json& value() const { return value_; }
  const std::string& source() const { return source_; }
  const std::string& where() const { return where_; }

  bool has(const char* key) const {
    const nlohmann::json& members = object().value_;
    const auto member = members.find(key);
    return member != members.end() && !member->is_null();
  }
  JsonNode at(const char* key) const {
    const nlohmann::json& members = object().value_;
    const auto member = members.find(key);
    if (member == members.end()) {
      fail_input(source_, ": ", where_, where_.empty() ? "" : ": ", "expected the key ",
                 quote(key));
    }
    const std::string name = shown(key);
    return {*member, source_, where_.empty() ? name : where_ + "." + name};
  }
  JsonNode at(std::size_t i) const { return {value_[i], source_, str(where_, "[", i, "]")}; }

  const JsonNode& object() const {
    return value_.is_object() ? *this : (expected("an object"), *this);
  }
  const JsonNode& array() const { return value_.is_array() ? *this : (expected("a list"), *this); }
  std::string text() const {
    if (!value_.is_string()) expected("text");
    return value_.get<std::string>();
  }
  bool boolean() const {
    if (!value_.is_boolean()) expected("true or false");
    return value_.get<bool>();
  }
  std::int64_t integer(std::int64_t lowest, std::int64_t highest) const {
    const bool fits = value_.is_number_integer() &&
                      (!value_.is_number_unsigned() || value_.get<std::uint64_t>() <= kMostIds) &&
                      value_.get<std::int64_t>() >= lowest && value_.get<std::int64_t>() <= highest;
    if (!fits) expected(str("an integer from ", lowest, " to ", highest));
    return value_.get<std::int64_t>();
  }
  bool flag(const char* key, bool otherwise) const {
    return has(key) ? at(key).boolean() : otherwise;
  }
  /// Appends "FILE: 'path.key'" for each key that is not in `known`, unless its value is null.
  void name_unknown(std::initializer_list<std::string_view> known,
                    std::vector<std::string>& names) const {
    for (const auto& [key, value] : object().value_.items()) {
      if (value.is_null() || std::find(known.begin(), known.end(), key) != known.end()) continue;
      names.push_back(source_ + ": " + quote(where_.empty() ? key : where_ + "." + key));
    }
  }
  void require_type(std::string_view name) const {
    const JsonNode type = at("type");
    if (type.text() != name) type.expected(name);
  }

 private:
  const nlohmann::json& value_;
  const std::string& source_;
  std::string where_;
};

}  // namespace ringlet::models
