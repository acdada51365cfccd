#include "ringlet/models/tokenizer/pipeline_json.h"

#include <utility>

#include "ringlet/models/tokenizer/unicode.h"
#include "ringlet/models/tokenizer/wordpiece.h"

namespace ringlet::models {
namespace {

using nlohmann::ordered_json;
using Names = std::vector<std::string>;

constexpr const char* kPrepend[] = {"always", "first", "never"};  // by Metaspace::Prepend

BertNormalizer read_bert_normalizer(const JsonNode& node, Names& unused_keys) {
  node.name_unknown({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"},
                    unused_keys);
  BertNormalizer normalizer;
  normalizer.clean_text = node.flag("clean_text", true);
  normalizer.handle_chinese_chars = node.flag("handle_chinese_chars", true);
  normalizer.lowercase = node.flag("lowercase", true);
  normalizer.strip_accents = node.flag("strip_accents", normalizer.lowercase);
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

void read_step(const JsonNode& node, NormalizerSequence& sequence, Names& unused_keys) {
  const JsonNode type = node.at("type");
  const std::string name = type.text();
  node.name_unknown(
      {"type", "precompiled_charsmap", "strip_left", "strip_right", "pattern", "content"},
      unused_keys);
  if (name == "Precompiled") {
    const JsonNode charsmap = node.at("precompiled_charsmap");
    if (charsmap.value().is_null()) return;
    sequence.steps.emplace_back(
        Precompiled(charsmap.text(), charsmap.source() + ": " + charsmap.where()));
  } else if (name == "Strip") {
    sequence.steps.emplace_back(
        Strip{.left = node.flag("strip_left", true), .right = node.flag("strip_right", true)});
  } else if (name == "Replace") {
    sequence.steps.emplace_back(read_replace(node));
  } else {
    type.expected("BertNormalizer, or Precompiled, Strip and Replace, alone or in one Sequence");
  }
}

ordered_json dump_step(const Precompiled& step) {
  return {{"type", "Precompiled"}, {"precompiled_charsmap", step.charsmap()}};
}

ordered_json dump_step(const Strip& step) {
  return {{"type", "Strip"}, {"strip_left", step.left}, {"strip_right", step.right}};
}

ordered_json dump_step(const Replace& step) {
  const ordered_json pattern = step.least_run == 0 ? ordered_json{{"String", step.pattern}}
                                                   : ordered_json{{"Regex", step.pattern + "{2,}"}};
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", step.content}};
}

Metaspace read_metaspace(const JsonNode& node, Names& unused_keys) {
  node.name_unknown(
      {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"},
      unused_keys);
  Metaspace splitter;
  splitter.replacement = node.at("replacement").text();
  if (unicode::length(splitter.replacement) != 1) node.at("replacement").expected("one character");
  // Older files have the flag alone.
  if (!node.flag("add_prefix_space", true)) splitter.prepend = Metaspace::Prepend::never;
  if (node.has("prepend_scheme")) {
    const std::string name = node.at("prepend_scheme").text();
    const auto* scheme = std::find(std::begin(kPrepend), std::end(kPrepend), name);
    const bool known = scheme != std::end(kPrepend);
    if (!known || (!node.flag("add_prefix_space", true) && name != "never"))
      node.at("prepend_scheme").expected("always, first or never, as add_prefix_space says");
    splitter.prepend = static_cast<Metaspace::Prepend>(scheme - std::begin(kPrepend));
  }
  splitter.split = node.flag("split", true);
  return splitter;
}

ByteLevel read_byte_level(const JsonNode& node, Names& unused_keys) {
  node.name_unknown({"type", "add_prefix_space", "trim_offsets", "use_regex"}, unused_keys);
  return {.add_prefix_space = node.flag("add_prefix_space", true),
          .use_regex = node.flag("use_regex", true)};
}

ordered_json dump_byte_level(const ByteLevel& splitter) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", splitter.add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", splitter.use_regex}};
}

ordered_json dump_metaspace(const Metaspace& splitter) {
  return {{"type", "Metaspace"},
          {"replacement", splitter.replacement},
          {"prepend_scheme", kPrepend[static_cast<int>(splitter.prepend)]},
          {"split", splitter.split}};
}

}  // namespace

Normalizer read_normalizer(const JsonNode& node, Names& unused_keys) {
  NormalizerSequence sequence;
  if (node.value().is_null()) return sequence;
  if (node.at("type").text() == "BertNormalizer") return read_bert_normalizer(node, unused_keys);
  if (node.at("type").text() != "Sequence") {
    read_step(node, sequence, unused_keys);
    return sequence;
  }
  const JsonNode steps = node.at("normalizers");
  for (std::size_t i = 0; i < steps.array().value().size(); ++i)
    read_step(steps.at(i), sequence, unused_keys);
  node.name_unknown({"type", "normalizers"}, unused_keys);
  return sequence;
}

ordered_json dump_strip_accents(const BertNormalizer& normalizer) {
  return normalizer.strip_accents == normalizer.lowercase ? ordered_json(nullptr)
                                                          : ordered_json(normalizer.strip_accents);
}

ordered_json dump_normalizer(const Normalizer& normalizer) {
  if (const auto* bert = std::get_if<BertNormalizer>(&normalizer)) {
    return {{"type", "BertNormalizer"},
            {"clean_text", bert->clean_text},
            {"handle_chinese_chars", bert->handle_chinese_chars},
            {"strip_accents", dump_strip_accents(*bert)},
            {"lowercase", bert->lowercase}};
  }
  ordered_json steps = ordered_json::array();
  for (const auto& step : std::get<NormalizerSequence>(normalizer).steps)
    steps.push_back(std::visit([](const auto& s) { return dump_step(s); }, step));
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return steps[0];
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

PreTokenizer read_pre_tokenizer(const JsonNode& node, Names& unused_keys) {
  const JsonNode type = node.at("type");
  const std::string name = type.text();
  if (name == "BertPreTokenizer") {
    node.name_unknown({"type"}, unused_keys);
    return BertSplit();
  }
  if (name == "Metaspace") return read_metaspace(node, unused_keys);
  if (name == "ByteLevel") return read_byte_level(node, unused_keys);
  if (name != "Sequence") type.expected("BertPreTokenizer, Metaspace, ByteLevel or Sequence");
  node.name_unknown({"type", "pretokenizers"}, unused_keys);
  const JsonNode steps = node.at("pretokenizers");
  if (steps.array().value().size() != 2) steps.expected("WhitespaceSplit and Metaspace");
  steps.at(std::size_t{0}).require_type("WhitespaceSplit");
  steps.at(std::size_t{1}).require_type("Metaspace");
  Metaspace splitter = read_metaspace(steps.at(std::size_t{1}), unused_keys);
  splitter.at_whitespace = true;
  return splitter;
}

ordered_json dump_pre_tokenizer(const PreTokenizer& splitter) {
  if (const auto* bytes = std::get_if<ByteLevel>(&splitter)) return dump_byte_level(*bytes);
  const auto* marked = std::get_if<Metaspace>(&splitter);
  if (marked == nullptr) return {{"type", "BertPreTokenizer"}};
  if (!marked->at_whitespace) return dump_metaspace(*marked);
  return {{"type", "Sequence"},
          {"pretokenizers", {{{"type", "WhitespaceSplit"}}, dump_metaspace(*marked)}}};
}

void read_decoder(const JsonNode& node, TokenizerModel& model, Names& unused_keys) {
  if (std::holds_alternative<Metaspace>(model.pre_tokenizer)) {
    node.require_type("Metaspace");
    const Metaspace decoder = read_metaspace(node, unused_keys);
    const auto& splitter = std::get<Metaspace>(model.pre_tokenizer);
    if (decoder.replacement != splitter.replacement || decoder.prepend != splitter.prepend)
      node.expected("the pre-tokenizer's replacement and prepend_scheme");
    return;
  }
  if (std::holds_alternative<ByteLevel>(model.pre_tokenizer)) {
    node.require_type("ByteLevel");
    read_byte_level(node, unused_keys);
    return;
  }
  node.require_type("WordPiece");
  node.name_unknown({"type", "prefix", "cleanup"}, unused_keys);
  model.decoder_cleanup = node.flag("cleanup", true);
}

ordered_json dump_decoder(const TokenizerModel& model) {
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
