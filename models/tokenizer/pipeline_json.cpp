#include "ringlet/core/base/error.h"
#include "ringlet/core/io/json.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <utility>

#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

constexpr const char* kPrepend[] = {"always", "first", "never"};  // by Metaspace::Prepend

void require_type(const JsonNode& node, std::string_view name) {
  const JsonNode type = node.at("type");
  if (type.text() != name) type.expected(name);
}

BertNormalizer read_bert_normalizer(const JsonNode& node) {
  BertNormalizer normalizer;
  normalizer.clean_text = node.get_or("clean_text", true);
  normalizer.handle_chinese_chars = node.get_or("handle_chinese_chars", true);
  normalizer.lowercase = node.get_or("lowercase", true);
  normalizer.strip_accents = node.get_or("strip_accents", normalizer.lowercase);
  node.name_unused();
  return normalizer;
}

/// {"String": "text"}, or {"Regex": " {2,}"}, a run of one ASCII character that is no operator.
Replace read_replace(const JsonNode& node) {
  const JsonNode pattern = node.at("pattern");
  Replace replace{.pattern = {}, .content = node.at("content").text()};
  if (pattern.has("String")) {
    replace.pattern = pattern.at("String").text();
    if (replace.pattern.empty()) pattern.at("String").expected("text that is not empty");
    return replace;
  }
  const std::string regex = pattern.at("Regex").text();
  if (regex.empty() || (regex[0] != ' ' && regex[0] != '\n') || regex.substr(1) != "{2,}")
    pattern.at("Regex").expected("\" {2,}\", the only expression with support here");
  replace.pattern = regex.substr(0, 1);
  replace.least_run = 2;
  return replace;
}

void read_step(const JsonNode& node, NormalizerSequence& sequence) {
  const JsonNode type = node.at("type");
  const std::string name = type.text();
  node.ignore({"precompiled_charsmap", "strip_left", "strip_right", "pattern", "content"});
  node.name_unused();
  if (name == "Precompiled") {
    const JsonNode charsmap = node.at("precompiled_charsmap");
    if (charsmap.value().is_null()) return;
    sequence.steps.emplace_back(Precompiled(charsmap.text(), charsmap.name()));
  } else if (name == "Strip") {
    sequence.steps.emplace_back(
        Strip{.left = node.get_or("strip_left", true), .right = node.get_or("strip_right", true)});
  } else if (name == "Replace") {
    sequence.steps.emplace_back(read_replace(node));
  } else {
    type.expected("BertNormalizer, or Precompiled, Strip and Replace, alone or in one Sequence");
  }
}

Json dump_step(const Precompiled& step) {
  return {{"type", "Precompiled"}, {"precompiled_charsmap", step.charsmap()}};
}

Json dump_step(const Strip& step) {
  return {{"type", "Strip"}, {"strip_left", step.left}, {"strip_right", step.right}};
}

Json dump_step(const Replace& step) {
  const Json pattern =
      step.least_run == 0 ? Json{{"String", step.pattern}} : Json{{"Regex", step.pattern + "{2,}"}};
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", step.content}};
}

Metaspace read_metaspace(const JsonNode& node) {
  Metaspace splitter;
  splitter.replacement = node.at("replacement").text();
  if (unicode::length(splitter.replacement) != 1) node.at("replacement").expected("one character");
  // Older files have the flag alone.
  if (!node.get_or("add_prefix_space", true)) splitter.prepend = Metaspace::Prepend::never;
  if (node.has("prepend_scheme")) {
    const std::string name = node.at("prepend_scheme").text();
    const auto* scheme = std::find(std::begin(kPrepend), std::end(kPrepend), name);
    const bool known = scheme != std::end(kPrepend);
    if (!known || (!node.get_or("add_prefix_space", true) && name != "never"))
      node.at("prepend_scheme").expected("always, first or never, as add_prefix_space says");
    splitter.prepend = static_cast<Metaspace::Prepend>(scheme - std::begin(kPrepend));
  }
  splitter.split = node.get_or("split", true);
  node.ignore({"type", "str_rep"});
  node.name_unused();
  return splitter;
}

ByteLevel read_byte_level(const JsonNode& node) {
  const ByteLevel splitter{.add_prefix_space = node.get_or("add_prefix_space", true),
                           .use_regex = node.get_or("use_regex", true)};
  node.ignore({"type", "trim_offsets"});
  node.name_unused();
  return splitter;
}

Json dump_byte_level(const ByteLevel& splitter) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", splitter.add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", splitter.use_regex}};
}

Json dump_metaspace(const Metaspace& splitter) {
  return {{"type", "Metaspace"},
          {"replacement", splitter.replacement},
          {"prepend_scheme", kPrepend[static_cast<int>(splitter.prepend)]},
          {"split", splitter.split}};
}

}  // namespace

Normalizer read_normalizer(const JsonNode& node) {
  NormalizerSequence sequence;
  if (node.value().is_null()) return sequence;
  if (node.at("type").text() == "BertNormalizer") return read_bert_normalizer(node);
  if (node.at("type").text() != "Sequence") {
    read_step(node, sequence);
    return sequence;
  }
  for (const JsonNode& step : node.at("normalizers").elements()) read_step(step, sequence);
  node.name_unused();
  return sequence;
}

Json dump_strip_accents(const BertNormalizer& normalizer) {
  return normalizer.strip_accents == normalizer.lowercase ? Json(nullptr)
                                                          : Json(normalizer.strip_accents);
}

Json dump_normalizer(const Normalizer& normalizer) {
  if (const auto* bert = std::get_if<BertNormalizer>(&normalizer)) {
    return {{"type", "BertNormalizer"},
            {"clean_text", bert->clean_text},
            {"handle_chinese_chars", bert->handle_chinese_chars},
            {"strip_accents", dump_strip_accents(*bert)},
            {"lowercase", bert->lowercase}};
  }
  Json steps = Json::array();
  for (const auto& step : std::get<NormalizerSequence>(normalizer).steps)
    steps.push_back(std::visit([](const auto& s) { return dump_step(s); }, step));
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return steps[0];
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

PreTokenizer read_pre_tokenizer(const JsonNode& node) {
  const JsonNode type = node.at("type");
  const std::string name = type.text();
  if (name == "BertPreTokenizer") {
    node.name_unused();
    return BertSplit();
  }
  if (name == "Metaspace") return read_metaspace(node);
  if (name == "ByteLevel") return read_byte_level(node);
  if (name != "Sequence") type.expected("BertPreTokenizer, Metaspace, ByteLevel or Sequence");
  const JsonNode steps = node.at("pretokenizers");
  node.name_unused();
  if (steps.array().size() != 2) steps.expected("WhitespaceSplit and Metaspace");
  require_type(steps.at(0), "WhitespaceSplit");
  require_type(steps.at(1), "Metaspace");
  Metaspace splitter = read_metaspace(steps.at(1));
  splitter.at_whitespace = true;
  return splitter;
}

Json dump_pre_tokenizer(const PreTokenizer& splitter) {
  if (const auto* bytes = std::get_if<ByteLevel>(&splitter)) return dump_byte_level(*bytes);
  const auto* marked = std::get_if<Metaspace>(&splitter);
  if (marked == nullptr) return {{"type", "BertPreTokenizer"}};
  if (!marked->at_whitespace) return dump_metaspace(*marked);
  return {{"type", "Sequence"},
          {"pretokenizers", {{{"type", "WhitespaceSplit"}}, dump_metaspace(*marked)}}};
}

void read_decoder(const JsonNode& node, TokenizerModel& model) {
  if (std::holds_alternative<Metaspace>(model.pre_tokenizer)) {
    require_type(node, "Metaspace");
    const Metaspace decoder = read_metaspace(node);
    const auto& splitter = std::get<Metaspace>(model.pre_tokenizer);
    if (decoder.replacement != splitter.replacement || decoder.prepend != splitter.prepend)
      node.expected("the pre-tokenizer's replacement and prepend_scheme");
    return;
  }
  if (std::holds_alternative<ByteLevel>(model.pre_tokenizer)) {
    require_type(node, "ByteLevel");
    read_byte_level(node);
    return;
  }
  require_type(node, "WordPiece");
  node.ignore({"prefix"});
  model.decoder_cleanup = node.get_or("cleanup", true);
  node.name_unused();
}

Json dump_decoder(const TokenizerModel& model) {
  if (const auto* marked = std::get_if<Metaspace>(&model.pre_tokenizer))
    return dump_metaspace(*marked);
  if (const auto* bytes = std::get_if<ByteLevel>(&model.pre_tokenizer))
    return dump_byte_level(*bytes);
  const auto& wordpiece = dynamic_cast<const WordPiece&>(*model.pieces);
  return {{"type", "WordPiece"},
          {"prefix", wordpiece.options().continuing_subword_prefix},
          {"cleanup", model.decoder_cleanup}};
}

}  // namespace ringlet::models
