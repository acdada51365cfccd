#include "ringlet/train/data/rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::train {
namespace {

using Kind = JsonMember::Kind;

/// Collects the members of the outermost object while the parser runs. It builds no tree, so that
/// unused columns (parse trees) cost little.
class ObjectParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<JsonMember> members;
  std::string repeated;          // a key that occurs twice; the parser stops there
  std::size_t error_column = 0;  // 0: well-formed, but no object
  std::string error_reason;

  bool null() override { return set(Kind::null); }
  bool boolean(bool value) override { return set_text(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return set_text(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return set_text(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& written) override { return set_text(written); }
  bool string(string_t& value) override { return set_text(value); }
  bool binary(binary_t&) override { return set(Kind::other); }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override { return depth_-- > 0; }
  bool end_array() override { return depth_-- > 0; }

  bool key(string_t& name) override {
    if (depth_ > 1) return true;
    const auto same = [&](const JsonMember& member) { return member.key == name; };
    current_ = static_cast<std::size_t>(std::find_if(members.begin(), members.end(), same) -
                                        members.begin());
    if (current_ < members.size()) repeated = name;
    if (repeated.empty()) members.push_back({name, {}});
    return repeated.empty();
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    error_column = position;
    // "[tag] parse error at line 1, column 9: syntax error while parsing value - REASON; last read"
    const std::string_view what = error.what();
    const std::size_t dash = what.find(" - ");
    if (dash != what.npos) error_reason = what.substr(dash + 3, what.find("; ", dash) - dash - 3);
    return false;
  }

  /// Why the parser stopped in `line`.
  std::string complaint(std::string_view line) const {
    if (!repeated.empty()) return str("key ", quote(repeated), " occurs twice");
    if (error_column == 0) return "expected a JSON object";
    const std::string_view rest = line.substr(std::min(error_column - 1, line.size()));
    if (rest.starts_with("NaN") || rest.starts_with("Infinity"))
      return str("expected a number or null at column ", error_column, ", found ",
                 rest.substr(0, rest.find_first_of(",} ")), ", which is not JSON");
    return str("expected a JSON object, malformed at column ", error_column,
               error_reason.empty() ? "" : ": ", shown(error_reason, 160));
  }

 private:
  // False outside the outermost object: the parser stops.
  bool set(Kind kind, std::string_view text = {}) {
    if (depth_ != 1) return depth_ > 1;
    members[current_].kind = kind;
    members[current_].text = text;
    return true;
  }
  bool open(bool is_object) {
    const bool nested = set(Kind::other);
    ++depth_;
    return nested || is_object;
  }
  bool set_text(std::string_view text) { return set(Kind::text, text); }

  std::size_t current_ = 0;
  std::size_t depth_ = 0;
};

}  // namespace

std::vector<JsonMember> json_members(std::string_view line, std::string& complaint) {
  ObjectParser object;
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &object))
    complaint = object.complaint(line);
  return std::move(object.members);
}

}  // namespace ringlet::train
