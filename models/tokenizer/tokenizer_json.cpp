#include "ringlet/models/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "ringlet/core/error.h"
#include "ringlet/core/quote.h"

namespace ringlet::models {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostIds = std::numeric_limits<std::int32_t>::max();

/// A value inside a file, with the path of keys that led to it, for messages.
class Node {
 public:
  Node(const json& value, const std::string& source, std::string where)
      : value_(value), source_(source), where_(std::move(where)) {}

  [[noreturn]] void expected(std::string_view what) const {
    const std::string text = value_.dump(-1, ' ', false, json::error_handler_t::replace);
    constexpr std::size_t kShort = 40;
    const bool long_list = value_.is_structured() && text.size() > kShort;
    const std::string got = long_list ? value_.type_name() : shown(text);
    if (where_.empty()) fail_input(source_, ": expected ", what, ", got ", got);
    fail_input(source_, ": ", where_, ": expected ", what, ", got ", got);
  }

  const json& value() const { return value_; }
  const std::string& source() const { return source_; }
  const std::string& where() const { return where_; }

  bool has(const char* key) const {
    const json& members = object().value_;
    const auto member = members.find(key);
    return member != members.end() && !member->is_null();
  }
  Node at(const char* key) const {
    const json& members = object().value_;
    const auto member = members.find(key);
    if (member == members.end()) {
      fail_input(source_, ": ", where_, where_.empty() ? "" : ": ", "expected the key ",
                 quote(key));
    }
    const std::string name = shown(key);
    return {*member, source_, where_.empty() ? name : where_ + "." + name};
  }
  Node at(std::size_t i) const { return {value_[i], source_, str(where_, "[", i, "]")}; }

  const Node& object() const { return value_.is_object() ? *this : (expected("an object"), *this); }
  const Node& array() const { return value_.is_array() ? *this : (expected("a list"), *this); }
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
  void require_type(std::string_view name) const {
    const Node type = at("type");
    if (type.text() != name) type.expected(name);
  }

 private:
  const json& value_;
  const std::string& source_;
  std::string where_;
};

json parse(std::string_view text, const std::string& source) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {  // also a number that no double holds
    // The library's text after its own tag: "... at line 3, column 7: ...".
    const std::string_view what = error.what();
    const std::size_t start = std::min(what.find(']') + 2, what.size());
    fail_input(source, ": expected JSON: ", shown(what.substr(start), 200));
  }
}

BertNormalizer read_normalizer(const Node& node) {
  node.require_type("BertNormalizer");
  BertNormalizer normalizer;
  normalizer.clean_text = node.flag("clean_text", true);
  normalizer.handle_chinese_chars = node.flag("handle_chinese_chars", true);
  normalizer.lowercase = node.flag("lowercase", true);
  normalizer.strip_accents = node.flag("strip_accents", normalizer.lowercase);
  return normalizer;
}

/// model.vocab as pieces in the order of their ids, which must be 0, 1, ..., n - 1.
std::vector<std::string> read_vocab(const Node& vocab) {
  const json& members = vocab.object().value();
  if (members.empty()) vocab.expected("word pieces");
  std::vector<std::string> pieces(members.size());
  std::vector<bool> seen(members.size());
  for (const auto& [piece, value] : members.items()) {
    const bool is_id = value.is_number_unsigned() && value.get<std::uint64_t>() < members.size();
    if (!is_id) {
      const Node id(value, vocab.source(), vocab.where() + "[" + quote(piece) + "]");
      id.expected(str("an id from 0 to ", members.size() - 1, " (", members.size(),
                      " pieces, no id left out)"));
    }
    const auto id = value.get<std::size_t>();
    if (seen[id]) {
      fail_input(vocab.source(), ": ", vocab.where(), ": expected each id once, ", id,
                 " belongs to both ", quote(pieces[id]), " and ", quote(piece));
    }
    seen[id] = true;
    pieces[id] = piece;
  }
  return pieces;
}

AddedToken read_added_token(const Node& node) {
  AddedToken token;
  token.id = static_cast<std::int32_t>(node.at("id").integer(0, kMostIds));
  token.content = node.at("content").text();
  if (token.content.empty()) node.at("content").expected("text that is not empty");
  token.single_word = node.flag("single_word", false);
  token.lstrip = node.flag("lstrip", false);
  token.rstrip = node.flag("rstrip", false);
  token.special = node.flag("special", false);
  token.normalized = node.flag("normalized", !token.special);
  return token;
}

/// The added tokens by id; those that the vocabulary does not hold are appended to `pieces`.
std::vector<AddedToken> read_added_tokens(const Node& list, std::vector<std::string>& pieces) {
  std::vector<AddedToken> tokens;
  for (std::size_t i = 0; i < list.array().value().size(); ++i) {
    tokens.push_back(read_added_token(list.at(i)));
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::size_t>(tokens[i].id);
    if (i > 0 && tokens[i].id == tokens[i - 1].id) {
      fail_input(list.source(), ": ", list.where(), ": expected each id once, got ", id, " twice");
    }
    if (id == pieces.size()) pieces.push_back(tokens[i].content);
    if (id > pieces.size()) {
      fail_input(list.source(), ": ", list.where(), ": expected id ", pieces.size(), " for ",
                 quote(tokens[i].content), ", the next one free, got ", id);
    }
    if (pieces[id] != tokens[i].content) {
      fail_input(list.source(), ": ", list.where(), ": expected ", quote(pieces[id]),
                 ", the piece with id ", id, ", got ", quote(tokens[i].content));
    }
  }
  return tokens;
}

WordPieceOptions read_wordpiece_options(const Node& model) {
  if (model.has("type")) model.require_type("WordPiece");
  WordPieceOptions options;
  options.unk_token = model.at("unk_token").text();
  options.continuing_subword_prefix = model.at("continuing_subword_prefix").text();
  options.max_input_chars_per_word = model.at("max_input_chars_per_word").integer(1, kMostIds);
  return options;
}

std::int32_t read_id(const Node& node, const Vocabulary& vocabulary) {
  return static_cast<std::int32_t>(node.integer(0, vocabulary.size() - 1));
}

/// ["[SEP]", 102]
std::int32_t read_named_id(const Node& node, const Vocabulary& vocabulary) {
  if (node.array().value().size() != 2) node.expected("a token and its id");
  return read_id(node.at(std::size_t{1}), vocabulary);
}

Template read_template(const Node& list, const Node& special_tokens, const Vocabulary& vocabulary,
                       std::int64_t texts) {
  using Kind = TemplatePiece::Kind;
  Template pieces;
  std::int64_t count[2] = {0, 0};
  for (std::size_t i = 0; i < list.array().value().size(); ++i) {
    const Node item = list.at(i);
    const bool special = item.has("SpecialToken");
    const Node body = item.at(special ? "SpecialToken" : "Sequence");
    const auto type = static_cast<std::int32_t>(body.at("type_id").integer(0, kMostIds));
    const std::string name = body.at("id").text();
    if (special) {
      const Node ids = special_tokens.at(name.c_str()).at("ids");
      for (std::size_t k = 0; k < ids.array().value().size(); ++k) {
        pieces.push_back({Kind::kSpecial, type, read_id(ids.at(k), vocabulary)});
      }
    } else {
      if (name != "A" && name != "B") body.at("id").expected("A or B");
      ++count[name == "B"];
      pieces.push_back({name == "A" ? Kind::kFirst : Kind::kSecond, type});
    }
  }
  if (count[0] != 1 || count[1] != texts - 1) {
    list.expected(texts == 1 ? "the sequence A once" : "the sequences A and B once each");
  }
  return pieces;
}

PostProcessor read_post_processor(const Node& node, const Vocabulary& vocabulary) {
  const std::string type = node.at("type").text();
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const std::int32_t cls = read_named_id(node.at("cls"), vocabulary);
    const std::int32_t sep = read_named_id(node.at("sep"), vocabulary);
    return type[0] == 'B' ? PostProcessor::bert(cls, sep) : PostProcessor::roberta(cls, sep);
  }
  if (type != "TemplateProcessing") {
    node.at("type").expected("TemplateProcessing, BertProcessing or RobertaProcessing");
  }
  const Node special_tokens = node.at("special_tokens");
  return {read_template(node.at("single"), special_tokens, vocabulary, 1),
          read_template(node.at("pair"), special_tokens, vocabulary, 2)};
}

std::int64_t read_truncation(const Node& node) {
  if (node.at("strategy").text() != "LongestFirst") {
    node.at("strategy").expected("LongestFirst");
  }
  if (node.has("direction") && node.at("direction").text() != "Right") {
    node.at("direction").expected("Right");
  }
  return node.at("max_length").integer(1, kMostIds);
}

/// The first of the added tokens with one of these names.
std::int32_t find_role(const std::vector<AddedToken>& tokens, std::string_view name,
                       std::string_view other) {
  for (const AddedToken& token : tokens) {
    if (token.content == name || token.content == other) return token.id;
  }
  return -1;
}

SpecialTokens find_special(const TokenizerModel& model, const Node& root) {
  SpecialTokens special;
  for (const TemplatePiece& piece : model.post_processor.single) {
    if (piece.kind != TemplatePiece::Kind::kSpecial) continue;
    if (special.cls == -1) special.cls = piece.id;
    special.sep = piece.id;
  }
  special.unk = model.wordpiece.unk_id();
  special.mask = find_role(model.added_tokens, "<mask>", "[MASK]");
  special.pad = find_role(model.added_tokens, "<pad>", "[PAD]");
  if (root.has("padding")) {
    special.pad = read_id(root.at("padding").at("pad_id"), model.wordpiece.vocabulary());
  }
  return special;
}

std::optional<std::string> token_name(const Node& root, const char* key) {
  if (!root.has(key)) return std::nullopt;
  const Node token = root.at(key);
  return token.value().is_object() ? token.at("content").text() : token.text();
}

}  // namespace

TokenizerModel parse_tokenizer_json(std::string_view text, const std::string& source) {
  const json file = parse(text, source);
  const Node root(file, source, "");
  TokenizerModel model;
  model.normalizer = read_normalizer(root.at("normalizer"));
  root.at("pre_tokenizer").require_type("BertPreTokenizer");
  const Node wordpiece = root.at("model");
  WordPieceOptions options = read_wordpiece_options(wordpiece);
  std::vector<std::string> pieces = read_vocab(wordpiece.at("vocab"));
  const auto size = static_cast<std::int32_t>(pieces.size());
  if (root.has("added_tokens")) {
    model.added_tokens = read_added_tokens(root.at("added_tokens"), pieces);
  }
  model.wordpiece = WordPiece(Vocabulary(pieces, source), size, std::move(options), source);
  model.post_processor = {{{TemplatePiece::Kind::kFirst}},
                          {{TemplatePiece::Kind::kFirst}, {TemplatePiece::Kind::kSecond}}};
  if (root.has("post_processor")) {
    model.post_processor =
        read_post_processor(root.at("post_processor"), model.wordpiece.vocabulary());
  }
  if (root.has("decoder")) {
    root.at("decoder").require_type("WordPiece");
    model.decoder_cleanup = root.at("decoder").flag("cleanup", true);
  }
  if (root.has("truncation")) {
    model.max_length = read_truncation(root.at("truncation"));
    const std::int64_t added = model.post_processor.added(false);
    if (model.max_length < added) {
      root.at("truncation")
          .at("max_length")
          .expected(str("at least the ", added, " special tokens"));
    }
  }
  model.special = find_special(model, root);
  return model;
}

TokenizerConfig parse_tokenizer_config(std::string_view text, const std::string& source) {
  const json file = parse(text, source);
  const Node root(file, source, "");
  TokenizerConfig config;
  if (root.has("do_lower_case")) config.do_lower_case = root.at("do_lower_case").boolean();
  if (root.has("tokenize_chinese_chars")) {
    config.tokenize_chinese_chars = root.at("tokenize_chinese_chars").boolean();
  }
  if (root.value().contains("strip_accents")) {
    config.strip_accents.emplace();
    if (root.has("strip_accents")) config.strip_accents = root.at("strip_accents").boolean();
  }
  if (root.has("tokenizer_class")) config.tokenizer_class = root.at("tokenizer_class").text();
  if (root.has("model_max_length")) {
    const Node length = root.at("model_max_length");
    // Python writes int(1e30) where there is no limit.
    const bool unlimited = length.value().is_number() && length.value().get<double>() > 1e9;
    config.model_max_length = unlimited ? 0 : length.integer(1, kMostIds);
  }
  config.cls_token = token_name(root, "cls_token");
  config.sep_token = token_name(root, "sep_token");
  config.pad_token = token_name(root, "pad_token");
  config.mask_token = token_name(root, "mask_token");
  return config;
}

}  // namespace ringlet::models
