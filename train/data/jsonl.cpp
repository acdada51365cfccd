#include "ringlet/train/data/jsonl.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace ringlet::train {
namespace {

using Line = nlohmann::json;
using Type = JsonlReader::Type;

/// Collects the members of the outermost object while the parser runs. It builds no tree, so that
/// unused columns (parse trees) cost little.
class MemberCollector : public nlohmann::json_sax<Line> {
 public:
  explicit MemberCollector(std::vector<JsonlReader::Member>& members) : members_(members) {
    members_.clear();
  }

  bool is_object() const { return is_object_; }
  std::size_t error_column() const { return error_column_; }

  bool null() override { return set({}, Type::null); }
  bool boolean(bool) override { return set({}, Type::other); }
  bool number_integer(number_integer_t value) override {
    return depth_ == 1 ? set(std::to_string(value), Type::number) : true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    return depth_ == 1 ? set(std::to_string(value), Type::number) : true;
  }
  bool number_float(number_float_t, const string_t& written) override {
    return set(written, Type::number);
  }
  bool string(string_t& value) override { return set(value, Type::string); }
  bool binary(binary_t&) override { return set({}, Type::other); }

  bool start_object(std::size_t) override {
    if (depth_ == 0) is_object_ = true;
    return enter();
  }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    if (depth_ != 1 || !is_object_) return true;
    const auto same = [&](const JsonlReader::Member& member) { return member.key == name; };
    current_ = static_cast<std::size_t>(std::find_if(members_.begin(), members_.end(), same) -
                                        members_.begin());
    if (current_ == members_.size()) members_.push_back({name, {}, Type::null});
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_column_ = position;
    return false;
  }

 private:
  bool set(std::string_view text, Type type) {
    if (depth_ == 1 && is_object_) {
      members_[current_].text = text;
      members_[current_].type = type;
    }
    return true;
  }
  bool enter() {
    if (depth_ > 0) set({}, Type::other);
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  std::vector<JsonlReader::Member>& members_;
  std::size_t current_ = 0;
  std::size_t depth_ = 0;
  std::size_t error_column_ = 0;
  bool is_object_ = false;
};

}  // namespace

JsonlReader::JsonlReader(LineReader lines) : lines_(std::move(lines)) {}

bool JsonlReader::next() {
  std::optional<std::string_view> line;
  do {
    line = lines_.next();
  } while (line && line->find_first_not_of(" \t\r") == std::string_view::npos);
  if (!line) return false;
  MemberCollector collector(members_);
  if (!Line::sax_parse(line->begin(), line->end(), &collector)) {
    lines_.fail_here("expected a JSON object, malformed at column ", collector.error_column());
  }
  if (!collector.is_object()) lines_.fail_here("expected a JSON object");
  return true;
}

const JsonlReader::Member* JsonlReader::find(std::string_view key) const {
  for (const Member& member : members_) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

}  // namespace ringlet::train
