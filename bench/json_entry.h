// JSON input files; every error names the place.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ringlet::bench {

/// A JSON value of a file; InputError names the file and the path in it.
class Entry {
 public:
  static Entry read(const std::filesystem::path& file);

  double number(const char* key) const;  // finite, not negative
  double number(const char* key, double otherwise) const;
  int count(const char* key) const;  // 1 or more
  std::string text(const char* key) const;
  bool flag(const char* key) const;  // false where absent
  bool has(const char* key) const { return value_->contains(key); }
  Entry at(const std::string& key) const;
  std::vector<Entry> list(const char* key) const;
  std::vector<double> numbers() const;  // of an array
  std::vector<double> numbers(const char* key) const { return at(key).numbers(); }
  std::vector<std::string> texts(const char* key) const;
  /// A file named by this entry, relative to bench/data.
  std::filesystem::path file(const char* key) const;
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  using Json = nlohmann::ordered_json;
  Entry(std::shared_ptr<Json> root, const Json* value, std::filesystem::path file,
        std::string where);

  std::shared_ptr<Json> root_;  // owns value_
  const Json* value_;
  std::filesystem::path file_;
  std::string where_;
};

}  // namespace ringlet::bench
