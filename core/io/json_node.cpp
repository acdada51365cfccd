#include "ringlet/core/io/json_node.h"

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet {

JsonNode::JsonNode(const std::filesystem::path& path, Notes* notes)
    : JsonNode(Json::parse(MappedFile(path).text(), path.string()), path.string(), notes) {}

JsonNode::JsonNode(Json value, std::string source, Notes* notes)
    : document_(
          std::make_shared<Document>(Document{std::move(value), std::move(source), notes, {}})),
      value_(&document_->root) {}

std::string JsonNode::name() const { return where_.empty() ? source() : source() + ": " + where_; }

JsonNode JsonNode::named(std::string where) const { return {document_, *value_, std::move(where)}; }

void JsonNode::expected(std::string_view what) const {
  constexpr std::size_t kShort = 40;
  const std::string text = value_->dump();
  const bool long_list = value_->is_structured() && text.size() > kShort;
  fail_input(name(), ": expected ", what, ", got ", long_list ? value_->type_name() : shown(text));
}

const Json* JsonNode::find(std::string_view key) const {
  const Json* member = object().value_->find(key);
  if (member) document_->used.insert(member);
  return member;
}

bool JsonNode::has(std::string_view key) const {
  const Json* member = find(key);
  return member && !member->is_null();
}

JsonNode JsonNode::at(std::string_view key) const {
  const Json* member = find(key);
  if (!member) fail_input(name(), ": expected the key ", quote(key));
  return this->member(key, *member);
}

JsonNode JsonNode::at(std::size_t i) const {
  if (i >= array().size()) expected(str("more than ", i, " values"));
  return {document_, value_->at(i), str(where_, "[", i, "]")};
}

std::vector<JsonNode> JsonNode::elements() const {
  std::vector<JsonNode> all;
  for (std::size_t i = 0; i < array().size(); ++i) all.push_back(at(i));
  return all;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  std::vector<std::pair<std::string, JsonNode>> all;
  for (const auto& [key, value] : object().value_->items()) {
    document_->used.insert(&value);
    all.emplace_back(key, member(key, value));
  }
  return all;
}

JsonNode JsonNode::member(std::string_view key, const Json& value) const {
  return {document_, value, where_.empty() ? shown(key) : where_ + "." + shown(key)};
}

const JsonNode& JsonNode::object() const {
  return value_->is_object() ? *this : (expected("an object"), *this);
}

const JsonNode& JsonNode::array() const {
  return value_->is_array() ? *this : (expected("a list"), *this);
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) expected("text");
  return value_->text();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) expected("true or false");
  return value_->boolean();
}

double JsonNode::number() const {
  if (!value_->is_number()) expected("a number");
  return value_->number();
}

std::int64_t JsonNode::integer(std::int64_t lowest, std::int64_t highest) const {
  if (!value_->is_number_integer() || *value_ < lowest || *value_ > highest)
    expected(highest < std::numeric_limits<std::int64_t>::max()
                 ? str("an integer from ", lowest, " to ", highest)
                 : "an integer");
  return value_->integer();
}

std::uint64_t JsonNode::count(std::uint64_t most) const {
  if (!value_->is_number_unsigned() || *value_ > most)
    expected(str("a whole number from 0 to ", most));
  return value_->unsigned_integer();
}

bool JsonNode::get_or(std::string_view key, bool otherwise) const {
  return has(key) ? at(key).boolean() : otherwise;
}

double JsonNode::get_or(std::string_view key, double otherwise) const {
  return has(key) ? at(key).number() : otherwise;
}

std::int64_t JsonNode::get_or(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? at(key).integer() : otherwise;
}

std::string JsonNode::get_or(std::string_view key, const std::string& otherwise) const {
  return has(key) ? at(key).text() : otherwise;
}

std::string JsonNode::get_or(std::string_view key, const char* otherwise) const {
  return get_or(key, std::string(otherwise));
}

void JsonNode::require(std::string_view key, const Json& value) const {
  if (has(key) && at(key).value() != value)
    fail_input(name(), ": ", key, " ", shown(at(key).value().dump()),
               " is not supported; expected ", value.dump());
}

void JsonNode::ignore(std::span<const char* const> keys) const {
  for (const char* key : keys) find(key);
}

void JsonNode::ignore(std::initializer_list<const char*> keys) const {
  ignore(std::span(keys.begin(), keys.size()));
}

Notes JsonNode::unused() const {
  Notes names;
  for (const auto& [key, value] : object().value_->items())
    if (!document_->used.contains(&value) && !value.is_null())
      names.push_back(name() + ": " + quote(key));
  return names;
}

void JsonNode::name_unused() const {
  if (!document_->notes) return;
  const Notes names = unused();
  document_->notes->insert(document_->notes->end(), names.begin(), names.end());
}

void JsonNode::refuse_unused() const {
  const Notes names = unused();
  if (!names.empty()) fail_input(names.front(), " is not a known key");
}

}  // namespace ringlet
