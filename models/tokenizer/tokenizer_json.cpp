#include "ringlet/models/tokenizer/tokenizer_json.h"

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/post_processor.h"

namespace ringlet::models {
namespace {

/// InputError unless the id is in the vocabulary.
std::int32_t read_id(const JsonNode& node, const Vocabulary& vocabulary) {
  return static_cast<std::int32_t>(node.integer(0, vocabulary.size() - 1));
}

/// ["[SEP]", 102]
std::int32_t read_named_id(const JsonNode& node, const Vocabulary& vocabulary) {
  if (node.array().size() != 2) node.expected("a token and its id");
  return read_id(node.at(1), vocabulary);
}

Template read_template(const JsonNode& list, const JsonNode& special_tokens,
                       const Vocabulary& vocabulary, std::int64_t texts) {
  using Kind = TemplatePiece::Kind;
  Template pieces;
  std::int64_t count[2] = {0, 0};
  for (const JsonNode& item : list.elements()) {
    const bool special = item.has("SpecialToken");
    const JsonNode body = item.at(special ? "SpecialToken" : "Sequence");
    const auto type = static_cast<std::int32_t>(body.at("type_id").integer(0, kMostIds));
    const std::string name = body.at("id").text();
    if (special) {
      for (const JsonNode& id : special_tokens.at(name).at("ids").elements())
        pieces.push_back({Kind::kSpecial, type, read_id(id, vocabulary)});
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

/// TemplateProcessing, BertProcessing or RobertaProcessing; another is InputError.
PostProcessor read_post_processor(const JsonNode& node, const Vocabulary& vocabulary) {
  const std::string type = node.at("type").text();
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const std::int32_t cls = read_named_id(node.at("cls"), vocabulary);
    const std::int32_t sep = read_named_id(node.at("sep"), vocabulary);
    return type[0] == 'B' ? PostProcessor::bert(cls, sep) : PostProcessor::roberta(cls, sep);
  }
  if (type != "TemplateProcessing") {
    node.at("type").expected("TemplateProcessing, BertProcessing or RobertaProcessing");
  }
  const JsonNode special_tokens = node.at("special_tokens");
  return {read_template(node.at("single"), special_tokens, vocabulary, 1),
          read_template(node.at("pair"), special_tokens, vocabulary, 2)};
}

/// The added tokens by id; those missing in the vocabulary are appended to `pieces`.
std::vector<AddedToken> read_token_list(const JsonNode& list, std::vector<std::string>& pieces) {
  std::vector<AddedToken> tokens;
  for (const JsonNode& node : list.elements()) {
    tokens.push_back(read_added_token(node));
    tokens.back().id = static_cast<std::int32_t>(node.at("id").integer(0, kMostIds));
  }
  std::ranges::stable_sort(tokens, {}, &AddedToken::id);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::size_t>(tokens[i].id);
    if (i > 0 && tokens[i].id == tokens[i - 1].id) {
      fail_input(list.name(), ": expected each id once, got ", id, " twice");
    }
    if (id == pieces.size()) pieces.push_back(tokens[i].content);
    if (id > pieces.size()) {
      fail_input(list.name(), ": expected id ", pieces.size(), " for ", quote(tokens[i].content),
                 ", the next one free, got ", id);
    }
    if (pieces[id] != tokens[i].content) {
      fail_input(list.name(), ": expected ", quote(pieces[id]), ", the piece with id ", id,
                 ", got ", quote(tokens[i].content));
    }
  }
  return tokens;
}

void read_truncation(const JsonNode& node, TokenizerModel& model) {
  if (node.at("strategy").text() != "LongestFirst") {
    node.at("strategy").expected("LongestFirst");
  }
  const std::string direction = node.has("direction") ? node.at("direction").text() : "Right";
  if (direction != "Left" && direction != "Right") {
    node.at("direction").expected("Left or Right");
  }
  model.truncate_left = direction == "Left";
  model.max_length = node.at("max_length").integer(1, kMostIds);
  const std::int64_t added = model.post_processor.added(false);
  if (model.max_length < added) {
    node.at("max_length").expected(str("at least the ", added, " special tokens"));
  }
}

/// Sentence Transformers pads batches, and BERT's position ids count left padding.
void check_padding(const JsonNode& node) {
  if (node.has("direction") && node.at("direction").text() != "Right") {
    node.at("direction").expected("Right");
  }
}

/// The first of the added tokens with one of these names.
std::int32_t find_role(const std::vector<AddedToken>& tokens, std::string_view name,
                       std::string_view other) {
  for (const AddedToken& token : tokens) {
    if (token.content == name || token.content == other) return token.id;
  }
  return -1;
}

SpecialTokens find_special(const TokenizerModel& model, const JsonNode& root) {
  SpecialTokens special;
  for (const TemplatePiece& piece : model.post_processor.single) {
    if (piece.kind != TemplatePiece::Kind::kSpecial) continue;
    if (special.cls == -1) special.cls = piece.id;
    special.sep = piece.id;
  }
  special.unk = model.pieces->unk_id();
  if (special.unk == Vocabulary::kMissing)
    special.unk = find_role(model.added_tokens, "<unk>", "[UNK]");
  special.mask = find_role(model.added_tokens, "<mask>", "[MASK]");
  special.pad = find_role(model.added_tokens, "<pad>", "[PAD]");
  if (root.has("padding")) {
    special.pad = read_id(root.at("padding").at("pad_id"), model.pieces->vocabulary());
  }
  return special;
}

/// Notes unknown keys of the file's objects, which the peer's library ignores.
void name_unused(const JsonNode& root) {
  root.ignore({"version"});
  root.name_unused();
  const auto inside = [&](const char* key, std::initializer_list<const char*> known) {
    if (!root.has(key)) return;
    root.at(key).ignore(known);
    root.at(key).name_unused();
  };
  inside("truncation", {"stride"});
  inside("padding",
         {"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"});
  inside("post_processor",
         {"single", "pair", "special_tokens", "sep", "cls", "trim_offsets", "add_prefix_space"});
}

}  // namespace

AddedToken read_added_token(const JsonNode& node, bool special) {
  AddedToken token;
  token.content = node.at("content").text();
  if (token.content.empty()) node.at("content").expected("text that is not empty");
  token.single_word = node.get_or("single_word", false);
  token.lstrip = node.get_or("lstrip", false);
  token.rstrip = node.get_or("rstrip", false);
  token.special = node.get_or("special", special);
  token.normalized = node.get_or("normalized", !token.special);
  node.ignore({"id", "__type"});
  node.name_unused();
  return token;
}

TokenizerModel read_tokenizer_json(const JsonNode& root) {
  TokenizerModel model;
  model.normalizer = read_normalizer(root.at("normalizer"));
  model.pre_tokenizer = read_pre_tokenizer(root.at("pre_tokenizer"));
  std::vector<std::string> pieces = read_pieces(root.at("model"));
  const auto size = static_cast<std::int32_t>(pieces.size());
  if (root.has("added_tokens")) {
    model.added_tokens = read_token_list(root.at("added_tokens"), pieces);
  }
  model.pieces = read_piece_model(root.at("model"), Vocabulary(pieces, root.source()), size);
  if (std::holds_alternative<BertSplit>(model.pre_tokenizer) &&
      dynamic_cast<const WordPiece*>(model.pieces.get()) == nullptr)
    root.at("pre_tokenizer").at("type").expected("Metaspace or ByteLevel for such a model");
  model.post_processor = {{{TemplatePiece::Kind::kFirst}},
                          {{TemplatePiece::Kind::kFirst}, {TemplatePiece::Kind::kSecond}}};
  if (root.has("post_processor")) {
    model.post_processor =
        read_post_processor(root.at("post_processor"), model.pieces->vocabulary());
  }
  if (root.has("decoder")) read_decoder(root.at("decoder"), model);
  if (root.has("truncation")) read_truncation(root.at("truncation"), model);
  if (root.has("padding")) check_padding(root.at("padding"));
  model.special = find_special(model, root);
  name_unused(root);
  return model;
}

}  // namespace ringlet::models
