#include "ringlet/models/tokenizer/post_processor_json.h"

#include "ringlet/core/base/error.h"

#include <string>

namespace ringlet::models {
namespace {

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
  for (std::size_t i = 0; i < list.array().size(); ++i) {
    const JsonNode item = list.at(i);
    const bool special = item.has("SpecialToken");
    const JsonNode body = item.at(special ? "SpecialToken" : "Sequence");
    const auto type = static_cast<std::int32_t>(body.at("type_id").integer(0, kMostIds));
    const std::string name = body.at("id").text();
    if (special) {
      const JsonNode ids = special_tokens.at(name).at("ids");
      for (std::size_t k = 0; k < ids.array().size(); ++k) {
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

}  // namespace

std::int32_t read_id(const JsonNode& node, const Vocabulary& vocabulary) {
  return static_cast<std::int32_t>(node.integer(0, vocabulary.size() - 1));
}

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

}  // namespace ringlet::models
