#include "ringlet/core/io/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <unordered_map>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"

namespace ringlet {
namespace {

constexpr std::size_t kMostNested = 1000;

/// A key that occurs twice; null if there is none.
const std::string* repeated_key(const Json::Object& members) {
  std::vector<const std::string*> keys;
  for (const auto& [key, value] : members) keys.push_back(&key);
  const auto text = [](const std::string* key) -> const std::string& { return *key; };
  std::ranges::sort(keys, {}, text);
  const auto twice = std::ranges::adjacent_find(keys, {}, text);
  return twice == keys.end() ? nullptr : *twice;
}

Json::Object without_repeated(Json::Object& members) {
  Json::Object kept;
  std::unordered_map<std::string, std::size_t> at;
  for (auto& [key, value] : members) {
    const auto [found, fresh] = at.try_emplace(key, kept.size());
    if (fresh)
      kept.emplace_back(key, std::move(value));
    else
      kept[found->second].second = std::move(value);
  }
  return kept;
}

/// Makes a value of the parser's events.
class Builder {
 public:
  explicit Builder(Json::Repeated repeated) : repeated_(repeated) {}
  Json root;
  std::string complaint;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool end_object() {
    Json::Object& members = open_.back()->items();
    open_.pop_back();
    const std::string* const repeated = repeated_key(members);
    if (repeated && repeated_ == Json::Repeated::refused)
      return complaint = quote(*repeated) + " appears twice", false;
    if (repeated) members = without_repeated(members);
    return true;
  }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    // The library's message after its own tag: "... at line 3, column 7: ...".
    const std::string_view what = error.what();
    complaint =
        str("expected JSON: ", shown(what.substr(std::min(what.find(']') + 2, what.size())), 200));
    return false;
  }

 private:
  Json& place(Json value) {
    if (open_.empty()) return root = std::move(value);
    if (open_.back()->is_array()) return open_.back()->list().emplace_back(std::move(value));
    return open_.back()->items().emplace_back(std::move(key_), std::move(value)).second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back(&place(std::move(value)));
    if (open_.size() <= kMostNested) return true;
    complaint = str("expected JSON: nested deeper than ", kMostNested);
    return false;
  }

  Json::Repeated repeated_;
  std::vector<Json*> open_;
  std::string key_;
};

/// The library's value, which writes JSON.
nlohmann::ordered_json native(const Json& json) {
  if (json.is_array()) {
    auto list = nlohmann::ordered_json::array();
    for (const Json& value : json) list.push_back(native(value));
    return list;
  }
  if (json.is_object()) {
    nlohmann::ordered_json::object_t members;
    members.reserve(json.size());
    // The base's member does not search for the key.
    for (const auto& [key, value] : json.items())
      members.Container::emplace_back(key, native(value));
    return members;
  }
  if (json.is_string()) return json.text();
  if (json.is_boolean()) return json.boolean();
  if (json.is_number_unsigned()) return json.unsigned_integer();
  if (json.is_number_integer()) return json.integer();
  if (json.is_number()) return json.number();
  return nullptr;
}

/// Holds each 64-bit integer and each double.
long double comparable(const Json& number) {
  static_assert(std::numeric_limits<long double>::digits >= 64);
  if (number.is_number_unsigned()) return static_cast<long double>(number.unsigned_integer());
  if (number.is_number_integer()) return static_cast<long double>(number.integer());
  return number.number();
}

[[noreturn]] void fail_type(const char* expected, const Json& json) {
  fail("[Json] expected ", expected, ", found ", shown(json.dump()));
}

}  // namespace

Json Json::parse(std::string_view text, const std::string& source, Repeated repeated) {
  check_kind(text, source);
  Builder builder(repeated);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder))
    fail_input(source, ": ", builder.complaint);
  return std::move(builder.root);
}

std::optional<Json> Json::try_parse(std::string_view text, Repeated repeated) {
  Builder builder(repeated);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return std::move(builder.root);
}

Json::Json(std::initializer_list<Json> values) {
  const bool members = std::ranges::all_of(values, [](const Json& value) {
    return value.is_array() && value.size() == 2 && value[0].is_string();
  });
  if (!members) {
    value_ = List(values);
    return;
  }
  value_ = Object();
  for (const Json& member : values) (*this)[member[0].text()] = member[1];
}

const char* Json::type_name() const {
  constexpr const char* kNames[] = {"null",   "boolean", "number", "number",
                                    "number", "string",  "array",  "object"};
  return kNames[value_.index()];
}

bool Json::boolean() const {
  const bool* value = std::get_if<bool>(&value_);
  return value ? *value : (fail_type("true or false", *this), false);
}

std::int64_t Json::integer() const {
  if (!is_number_unsigned())
    return is_number_integer() ? std::get<std::int64_t>(value_)
                               : (fail_type("an integer", *this), 0);
  const std::uint64_t value = std::get<std::uint64_t>(value_);
  if (!std::in_range<std::int64_t>(value)) fail_type("an integer below 2^63", *this);
  return static_cast<std::int64_t>(value);
}

std::uint64_t Json::unsigned_integer() const {
  if (is_number_unsigned()) return std::get<std::uint64_t>(value_);
  const std::int64_t value = integer();
  if (value < 0) fail_type("an integer of at least 0", *this);
  return static_cast<std::uint64_t>(value);
}

void Json::fail_range() const { fail_type("a smaller integer", *this); }

double Json::number() const {
  if (is_number_unsigned()) return static_cast<double>(std::get<std::uint64_t>(value_));
  if (is_number_integer()) return static_cast<double>(std::get<std::int64_t>(value_));
  const double* value = std::get_if<double>(&value_);
  return value ? *value : (fail_type("a number", *this), 0);
}

const std::string& Json::text() const {
  if (!is_string()) fail_type("text", *this);
  return std::get<std::string>(value_);
}

const Json::List& Json::list() const {
  if (!is_array()) fail_type("a list", *this);
  return std::get<List>(value_);
}

const Json::Object& Json::items() const {
  if (!is_object()) fail_type("an object", *this);
  return std::get<Object>(value_);
}

Json::List& Json::list() { return const_cast<List&>(std::as_const(*this).list()); }
Json::Object& Json::items() { return const_cast<Object&>(std::as_const(*this).items()); }

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const auto& members = std::get<Object>(value_);
  const auto found = std::ranges::find(members, key, &Object::value_type::first);
  return found == members.end() ? nullptr : &found->second;
}

Json* Json::find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

const Json& Json::at(std::string_view key) const {
  const Json* found = find(key);
  return found ? *found : (fail_type(("the key " + quote(key)).c_str(), *this), *this);
}

const Json& Json::at(std::size_t i) const {
  if (i >= list().size()) fail("[Json] index ", i, " of ", size(), " values");
  return list()[i];
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  Json* found = find(key);
  return found ? *found : items().emplace_back(key, nullptr).second;
}

std::size_t Json::size() const {
  return is_array() ? list().size() : is_object() ? items().size() : is_null() ? 0 : 1;
}

const Json::List& Json::values() const {
  static const List none;
  return is_null() ? none : list();
}

void Json::push_back(Json value) {
  if (is_null()) value_ = List();
  list().push_back(std::move(value));
}

void Json::update(const Json& other) {
  for (const auto& [key, value] : other.items()) (*this)[key] = value;
}

void Json::erase(std::string_view key) {
  std::erase_if(items(), [&](const auto& member) { return member.first == key; });
}

std::string Json::dump(int indent) const {
  try {
    return native(*this).dump(indent);
  } catch (const nlohmann::json::exception& error) {
    fail("[Json] a text is not UTF-8: ", error.what());
  }
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return comparable(a) == comparable(b);
  if (!a.is_object() || !b.is_object()) return a.value_ == b.value_;
  return a.size() == b.size() && std::ranges::all_of(a.items(), [&](const auto& member) {
           const Json* other = b.find(member.first);
           return other && *other == member.second;
         });
}

std::partial_ordering operator<=>(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return comparable(a) <=> comparable(b);
  if (a.is_string() && b.is_string()) return a.text() <=> b.text();
  return a == b ? std::partial_ordering::equivalent : std::partial_ordering::unordered;
}

std::ostream& operator<<(std::ostream& out, const Json& json) { return out << json.dump(); }

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_version() {
  return str(NLOHMANN_JSON_VERSION_MAJOR, '.', NLOHMANN_JSON_VERSION_MINOR, '.',
             NLOHMANN_JSON_VERSION_PATCH);
}

}  // namespace ringlet
