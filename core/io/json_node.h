// A value of a JSON file, with errors that name the file and the path in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"

namespace ringlet {

/// Copies share the document. It records which keys of its objects at() and has() were called
/// with: the others have no effect on the program. Values of another type are an InputError.
class JsonNode {
 public:
  /// InputError if the file is no JSON. name_unused() writes to `notes`, unless null.
  explicit JsonNode(const std::filesystem::path& path, Notes* notes = nullptr);
  JsonNode(Json value, std::string source, Notes* notes = nullptr);

  const Json& value() const { return *value_; }
  const std::string& source() const { return document_->source; }
  /// The file and the path in it: "FILE" or "FILE: a.b[0]".
  std::string name() const;
  /// The same value under another path in messages.
  JsonNode named(std::string where) const;
  /// InputError, "FILE: path: expected WHAT, got VALUE".
  [[noreturn]] void expected(std::string_view what) const;

  /// True for a key with a value other than null.
  bool has(std::string_view key) const;
  JsonNode at(std::string_view key) const;
  JsonNode at(std::size_t i) const;
  std::size_t size() const { return value_->size(); }
  /// The values of a list, and the members of an object.
  std::vector<JsonNode> elements() const;
  std::vector<std::pair<std::string, JsonNode>> members() const;

  const JsonNode& object() const;
  const JsonNode& array() const;
  const std::string& text() const;
  bool boolean() const;
  double number() const;
  std::int64_t integer(std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t highest = std::numeric_limits<std::int64_t>::max()) const;
  /// A whole number from 0 to `most`.
  std::uint64_t count(std::uint64_t most) const;
  /// `otherwise` without the key, or if its value is null.
  bool get_or(std::string_view key, bool otherwise) const;
  double get_or(std::string_view key, double otherwise) const;
  std::int64_t get_or(std::string_view key, std::int64_t otherwise) const;
  std::string get_or(std::string_view key, const std::string& otherwise) const;
  std::string get_or(std::string_view key, const char* otherwise) const;

  /// A setting that is followed only where it is `value`, the default; InputError for another.
  void require(std::string_view key, const Json& value) const;
  /// Keys that change no result here.
  void ignore(std::span<const char* const> keys) const;
  void ignore(std::initializer_list<const char*> keys) const;
  /// Notes each key that no call above named, except null values.
  void name_unused() const;
  /// For files with the arguments of a Python class: InputError names an unused key.
  void refuse_unused() const;

 private:
  struct Document {
    Json root;
    std::string source;
    Notes* notes;
    std::set<const Json*> used;
  };
  JsonNode(std::shared_ptr<Document> document, const Json& value, std::string where)
      : document_(std::move(document)), value_(&value), where_(std::move(where)) {}
  /// Null if there is no such key.
  const Json* find(std::string_view key) const;
  JsonNode member(std::string_view key, const Json& value) const;
  Notes unused() const;

  std::shared_ptr<Document> document_;
  const Json* value_;
  std::string where_;
};

}  // namespace ringlet
