#include "json_entry.h"

#include <cmath>

#include "ringlet/core/error.h"
#include "ringlet/core/file.h"
#include "ringlet/core/quote.h"

namespace ringlet::bench {

Entry::Entry(std::shared_ptr<Json> root, const Json* value, std::filesystem::path file,
             std::string where)
    : root_(std::move(root)), value_(value), file_(std::move(file)), where_(std::move(where)) {}

Entry Entry::read(const std::filesystem::path& file) {
  auto root = std::make_shared<Json>(Json::parse(read_file(file), nullptr, false));
  const Json* value = root.get();
  if (!value->is_object()) fail_input(file.string(), ": expected a JSON object");
  return {std::move(root), value, file, ""};
}

void Entry::refuse(const std::string& why) const {
  fail_input(file_.string(), ": ", where_, where_.empty() ? "" : ": ", why);
}

Entry Entry::at(const std::string& key) const {
  if (!value_->is_object()) refuse("expected an object with " + quote(key));
  const auto found = value_->find(key);
  if (found == value_->end()) refuse("expected " + quote(key));
  return {root_, &*found, file_, where_.empty() ? key : where_ + " " + quote(key)};
}

double Entry::number(const char* key) const {
  const auto found = value_->find(key);
  if (found == value_->end() || !found->is_number() || !std::isfinite(found->get<double>()) ||
      *found < 0)
    refuse("expected a number " + quote(key) + ", 0 or more");
  return *found;
}

double Entry::number(const char* key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

int Entry::count(const char* key) const {
  const double value = number(key);
  if (value < 1 || value > 1e6 || value != std::floor(value))
    refuse("expected a whole number " + quote(key) + ", 1 to 1000000");
  return static_cast<int>(value);
}

std::string Entry::text(const char* key) const {
  const auto found = value_->find(key);
  if (found == value_->end() || !found->is_string()) refuse("expected a string " + quote(key));
  return *found;
}

bool Entry::flag(const char* key) const {
  if (!has(key)) return false;
  const Json& value = (*value_)[key];
  if (!value.is_boolean()) refuse("expected true or false as " + quote(key));
  return value;
}

std::vector<Entry> Entry::list(const char* key) const {
  const Entry all = at(key);
  if (!all.value_->is_array()) refuse("expected an array " + quote(key));
  std::vector<Entry> out;
  for (std::size_t i = 0; i < all.value_->size(); ++i)
    out.push_back({root_, &(*all.value_)[i], file_, str(key, " ", i + 1)});
  return out;
}

std::vector<double> Entry::numbers() const {
  if (!value_->is_array()) refuse("expected an array of numbers");
  std::vector<double> out;
  for (const Json& value : *value_) {
    if (!value.is_number()) refuse("expected an array of numbers");
    out.push_back(value);
  }
  return out;
}

std::vector<std::string> Entry::texts(const char* key) const {
  std::vector<std::string> out;
  for (const Json& value : *at(key).value_) {
    if (!value.is_string()) refuse("expected strings in " + quote(key));
    out.push_back(value);
  }
  return out;
}

std::filesystem::path Entry::file(const char* key) const {
  return file_.parent_path().parent_path() / text(key);
}

}  // namespace ringlet::bench
