#include <algorithm>
#include <set>
#include <utility>

#include "ringlet/core/io/json.h"
#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

namespace ringlet::models {
namespace {

using Kind = TemplatePiece::Kind;

std::string name(const TokenizerModel& model, std::int32_t id) {
  return std::string(model.pieces->vocabulary().piece(id));
}

Json dump_added_token(const AddedToken& token) {
  return {{"content", token.content},       {"single_word", token.single_word},
          {"lstrip", token.lstrip},         {"rstrip", token.rstrip},
          {"normalized", token.normalized}, {"special", token.special}};
}

/// Readers assign ids in the order of the file.
std::vector<AddedToken> by_id(std::vector<AddedToken> tokens) {
  std::ranges::stable_sort(tokens, {}, &AddedToken::id);
  return tokens;
}

Json dump_added_tokens(const TokenizerModel& model) {
  Json tokens = Json::array();
  for (const AddedToken& token : by_id(model.added_tokens)) {
    Json entry = {{"id", token.id}};
    entry.update(dump_added_token(token));
    tokens.push_back(std::move(entry));
  }
  return tokens;
}

Json dump_template(const TokenizerModel& model, const Template& pieces) {
  Json list = Json::array();
  for (const TemplatePiece& piece : pieces) {
    const bool special = piece.kind == Kind::kSpecial;
    const std::string id = special ? name(model, piece.id) : piece.kind == Kind::kFirst ? "A" : "B";
    const Json body = {{"id", id}, {"type_id", piece.type_id}};
    list.push_back({{special ? "SpecialToken" : "Sequence", body}});
  }
  return list;
}

Json dump_post_processor(const TokenizerModel& model) {
  std::set<std::int32_t> ids;
  for (const Template* pieces : {&model.post_processor.single, &model.post_processor.pair}) {
    for (const TemplatePiece& piece : *pieces) {
      if (piece.kind == Kind::kSpecial) ids.insert(piece.id);
    }
  }
  Json special_tokens = Json::object();
  for (const std::int32_t id : ids) {
    const std::string token = name(model, id);
    special_tokens[token] = {
        {"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", dump_template(model, model.post_processor.single)},
          {"pair", dump_template(model, model.post_processor.pair)},
          {"special_tokens", special_tokens}};
}

bool is_mpnet(const TokenizerModel& model) {
  return model.special.cls >= 0 && name(model, model.special.cls) == "<s>";
}

/// Compares kinds and ids; not token types, because MPNet has none.
bool same_tokens(const Template& a, const Template& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TemplatePiece& x, const TemplatePiece& y) {
                      return x.kind == y.kind && (x.kind != Kind::kSpecial || x.id == y.id);
                    });
}

bool is_added(const TokenizerModel& model, std::int32_t id) {
  return std::ranges::any_of(model.added_tokens, [&](auto& token) { return token.id == id; });
}

/// A class adds missing special tokens.
bool has_class_tokens(const TokenizerModel& model) {
  return std::ranges::all_of(
      kSpecialRoles, [&](const auto& role) { return is_added(model, model.special.*role.second); });
}

/// Newer versions of transformers build the named class from vocabulary and settings and ignore the
/// rest of tokenizer.json. A tokenizer that the class cannot express needs the class that reads the
/// whole file.
std::string tokenizer_class(const TokenizerModel& model) {
  const auto* wordpiece = dynamic_cast<const WordPiece*>(model.pieces.get());
  const auto* normalizer = std::get_if<BertNormalizer>(&model.normalizer);
  const bool bert_words = std::holds_alternative<BertSplit>(model.pre_tokenizer);
  if (!wordpiece || !normalizer || !bert_words) return "PreTrainedTokenizerFast";
  const bool mpnet = is_mpnet(model);
  const PostProcessor usual = mpnet ? PostProcessor::roberta(model.special.cls, model.special.sep)
                                    : PostProcessor::bert(model.special.cls, model.special.sep);
  const WordPieceOptions defaults;
  const WordPieceOptions& options = wordpiece->options();
  const bool expressible =
      normalizer->clean_text && model.decoder_cleanup && has_class_tokens(model) &&
      options.continuing_subword_prefix == defaults.continuing_subword_prefix &&
      options.max_input_chars_per_word == defaults.max_input_chars_per_word &&
      same_tokens(model.post_processor.single, usual.single) &&
      same_tokens(model.post_processor.pair, usual.pair);
  if (!expressible) return "PreTrainedTokenizerFast";
  if (mpnet) return "MPNetTokenizer";
  return model.token_types ? "BertTokenizer" : "DistilBertTokenizer";
}

Json dump_roles(const TokenizerModel& model) {
  Json roles = Json::object();
  // Readers match every token with a role in the text.
  const auto add = [&](const char* role, std::int32_t id) {
    if (is_added(model, id)) roles[role] = name(model, id);
  };
  if (is_mpnet(model)) {
    add("bos_token", model.special.cls);
    add("eos_token", model.special.sep);
  }
  for (const auto& [key, id] : kSpecialRoles) add(key, model.special.*id);
  return roles;
}

}  // namespace

std::string dump_tokenizer_json(const TokenizerModel& model, std::int64_t max_length) {
  const char* direction = model.truncate_left ? "Left" : "Right";
  const Json truncation = max_length == 0 ? Json(nullptr)
                                          : Json{{"direction", direction},
                                                 {"max_length", max_length},
                                                 {"strategy", "LongestFirst"},
                                                 {"stride", 0}};
  const Json file = {{"version", "1.0"},
                     {"truncation", truncation},
                     {"padding", nullptr},
                     {"added_tokens", dump_added_tokens(model)},
                     {"normalizer", dump_normalizer(model.normalizer)},
                     {"pre_tokenizer", dump_pre_tokenizer(model.pre_tokenizer)},
                     {"post_processor", dump_post_processor(model)},
                     {"decoder", dump_decoder(model)},
                     {"model", dump_piece_model(*model.pieces)}};
  return file.dump(2) + "\n";
}

std::string dump_tokenizer_config(const TokenizerModel& model, std::int64_t max_length) {
  Json decoder = Json::object();
  for (const AddedToken& token : by_id(model.added_tokens)) {
    decoder[std::to_string(token.id)] = dump_added_token(token);
  }
  Json config = {{"added_tokens_decoder", decoder}};
  config.update(dump_roles(model));
  if (const auto* normalizer = std::get_if<BertNormalizer>(&model.normalizer)) {
    config["do_lower_case"] = normalizer->lowercase;
    config["strip_accents"] = dump_strip_accents(*normalizer);
    config["tokenize_chinese_chars"] = normalizer->handle_chinese_chars;
  }
  if (max_length > 0) config["model_max_length"] = max_length;
  if (model.truncate_left) config["truncation_side"] = "left";
  if (is_mpnet(model) || !model.token_types)
    config["model_input_names"] = {"input_ids", "attention_mask"};
  config["tokenizer_class"] = tokenizer_class(model);
  return config.dump(2) + "\n";
}

std::string dump_special_tokens_map(const TokenizerModel& model) {
  return dump_roles(model).dump(2) + "\n";
}

}  // namespace ringlet::models
