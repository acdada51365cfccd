#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

namespace ringlet::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "tokenizer_config.json";

TokenizerFamily guess_family(const Vocabulary& vocabulary) {
  return vocabulary.find("<s>") == Vocabulary::kMissing ? TokenizerFamily::kBert
                                                        : TokenizerFamily::kMpnet;
}

TokenizerModel make_model(Vocabulary vocabulary, const TokenizerOptions& options,
                          const std::string& source) {
  const TokenizerFamily family = options.family.value_or(guess_family(vocabulary));
  const bool mpnet = family == TokenizerFamily::kMpnet;
  for (const char* name :
       {mpnet ? "<s>" : "[CLS]", mpnet ? "</s>" : "[SEP]", mpnet ? "<pad>" : "[PAD]", "[UNK]"})
    required_id(vocabulary, name, source);
  TokenizerConfig config;
  if (vocabulary.find(mpnet ? "<mask>" : "[MASK]") == Vocabulary::kMissing)
    config.roles["mask_token"] = {};
  TokenizerModel model = build_tokenizer_class(family, std::move(vocabulary), {}, config, source);
  model.normalizer = options.normalizer;
  model.max_length = options.max_length;
  return model;
}

/// The settings, in the order in which transformers applies them.
TokenizerConfig read_config(const fs::path& folder, const TokenizerConfig& overrides,
                            Notes& notes) {
  TokenizerConfig config;
  if (const fs::path path = folder / kConfigFile; path_exists(path)) {
    config = read_tokenizer_config(JsonNode(path, &notes));
  }
  config.update(overrides);
  if (config.extra_tokens.empty()) config.extra_tokens = std::move(config.additional_tokens);
  config.additional_tokens.clear();
  // The older file counts if the newer key is missing.
  const fs::path path = folder / "special_tokens_map.json";
  if (config.added_tokens || !path_exists(path)) return config;
  TokenizerConfig map = read_tokenizer_config(JsonNode(path, &notes));
  map.extra_tokens.insert(map.extra_tokens.begin(), config.extra_tokens.begin(),
                          config.extra_tokens.end());
  config.update(map);
  config.update(overrides);
  return config;
}

/// The tokens that transformers adds to those of a class, by id: only those of the newest source.
std::vector<AddedToken> all_added(const fs::path& folder, const TokenizerConfig& config,
                                  const TokenizerModel* file) {
  if (config.added_tokens) return *config.added_tokens;
  std::map<std::int32_t, AddedToken> tokens;
  if (const fs::path path = folder / "added_tokens.json"; path_exists(path)) {
    for (AddedToken& token : read_added_tokens(JsonNode(path))) {
      const auto same = [&](const AddedToken& extra) { return extra.content == token.content; };
      const auto named = [&](const auto& role) { return role.second == token.content; };
      token.special = std::ranges::any_of(config.role_texts, named) ||
                      std::ranges::any_of(config.extra_tokens, same);
      token.normalized = !token.special;
      tokens[token.id] = std::move(token);
    }
  }
  if (file != nullptr) {
    for (const AddedToken& token : file->added_tokens) tokens[token.id] = token;
  }
  std::vector<AddedToken> list;
  for (auto& [id, token] : tokens) list.push_back(std::move(token));
  return list;
}

/// The class name and the file that has it: tokenizer_class of tokenizer_config.json or
/// config.json, or the class of the model's type. Empty if there is none.
std::pair<std::string, std::string> find_class(const fs::path& folder,
                                               const TokenizerConfig& config) {
  if (config.tokenizer_class) return {*config.tokenizer_class, (folder / kConfigFile).string()};
  const fs::path path = folder / "config.json";
  if (!path_exists(path)) return {};
  const std::string source = path.string();
  const JsonNode root(path);
  if (root.has("tokenizer_class")) return {root.at("tokenizer_class").text(), source};
  const std::string type = root.has("model_type") ? root.at("model_type").text() : "";
  if (type == "bert") return {"BertTokenizer", source};
  if (type == "mpnet") return {"MPNetTokenizer", source};
  if (type == "distilbert") return {"BertTokenizer", source};
  if (type == "roberta") return {"RobertaTokenizer", source};
  if (type == "xlm-roberta") return {"XLMRobertaTokenizer", source};
  return {};
}

/// Unset: a class that uses the words of tokenizer.json. `name` has no "Fast" at its end.
std::optional<TokenizerFamily> family_of(const std::string& name, const std::string& source) {
  if (name == "BertTokenizer" || name == "DistilBertTokenizer" || name == "ElectraTokenizer") {
    return TokenizerFamily::kBert;
  }
  if (name == "MPNetTokenizer") return TokenizerFamily::kMpnet;
  if (name != "XLMRobertaTokenizer" && name != "RobertaTokenizer" &&
      name != "PreTrainedTokenizer" && name != "TokenizersBackend") {
    fail_input(source, ": tokenizer_class: expected BertTokenizer, MPNetTokenizer, ",
               "XLMRobertaTokenizer, RobertaTokenizer, PreTrainedTokenizerFast or ",
               "TokenizersBackend, got ", quote(name));
  }
  return std::nullopt;
}

/// tokenizer.json unchanged, except for the settings' added tokens and roles.
TokenizerModel extend(TokenizerModel model, std::span<const AddedToken> added,
                      const TokenizerConfig& config, const std::string& source) {
  add_tokens(added, model, source);
  add_named_tokens(config.roles, config, model, source);
  for (const auto& [key, id] : kSpecialRoles) {
    const auto role = config.roles.find(key);
    if (role == config.roles.end() || role->second.content.empty()) continue;
    if (id != &SpecialTokens::unk)  // that of the words
      model.special.*id = model.pieces->vocabulary().find(role->second.content);
  }
  return model;
}

/// The usual names of RobertaTokenizer's special tokens, where the settings have none.
void name_roberta_roles(TokenizerConfig& config) {
  constexpr std::pair<const char*, const char*> kUsual[] = {
      {"bos_token", "<s>"}, {"eos_token", "</s>"},  {"unk_token", "<unk>"},  {"sep_token", "</s>"},
      {"cls_token", "<s>"}, {"pad_token", "<pad>"}, {"mask_token", "<mask>"}};
  for (const auto& [key, content] : kUsual)
    config.roles.emplace(key, AddedToken{.content = content});
}

[[noreturn]] void refuse_missing(const fs::path& folder) {
  for (const char* pieces : {"sentencepiece.bpe.model", "spiece.model", "tokenizer.model"})
    if (path_exists(folder / pieces))
      fail_input(
          (folder / pieces).string(), ": is not read; convert it to tokenizer.json with ",
          "python -c \"from transformers import AutoTokenizer; AutoTokenizer.from_pretrained('",
          folder.string(), "').save_pretrained('", folder.string(), "')\"");
  fail_input(folder.string(),
             ": expected tokenizer.json, vocab.txt, or vocab.json and merges.txt; ",
             "none is there");
}

TokenizerModel read_model(const fs::path& folder, TokenizerConfig& config, Notes& notes) {
  const fs::path file = folder / "tokenizer.json";
  const fs::path vocab = folder / "vocab.txt";
  std::optional<TokenizerModel> whole;
  auto [name, named_by] = find_class(folder, config);
  if (name.ends_with("Fast")) name.erase(name.size() - 4);
  std::string source = vocab.string();
  if (path_exists(file)) {
    source = file.string();
    whole = read_tokenizer_json(JsonNode(file, &notes));
  } else if (const fs::path bpe = folder / "vocab.json";
             name == "RobertaTokenizer" && path_exists(bpe)) {
    source = bpe.string();
    whole = read_bpe_files(bpe, folder / "merges.txt");
    name_roberta_roles(config);
  } else if (!path_exists(vocab)) {
    refuse_missing(folder);
  }
  std::optional<TokenizerFamily> family;
  if (!name.empty()) family = family_of(name, named_by);
  const std::vector<AddedToken> added = all_added(folder, config, whole ? &*whole : nullptr);
  if (!family && whole) {
    take_class_settings(name, config, *whole, source);
    return extend(*std::move(whole), added, config, source);
  }
  if (whole && dynamic_cast<const WordPiece*>(whole->pieces.get()) == nullptr)
    fail_input(source, ": model: expected WordPiece, as ", name, " has");
  Vocabulary vocabulary =
      whole ? Vocabulary(whole->pieces->vocabulary().pieces(whole->pieces->size()), source)
            : Vocabulary::from_file(vocab);
  if (!family && !name.empty()) {
    fail_input(named_by, ": tokenizer_class: ", quote(name),
               " needs tokenizer.json, it is not there");
  }
  if (!family) family = guess_family(vocabulary);
  TokenizerModel model =
      build_tokenizer_class(*family, std::move(vocabulary), added, config, source);
  model.truncate_left = whole && whole->truncate_left;
  return model;
}

/// vocab.txt has one piece per line, so a piece with a line break cannot be written.
std::string dump_vocab(const PieceModel& model) {
  std::string text;
  for (std::int32_t id = 0; id < model.size(); ++id) {
    const std::string_view piece = model.vocabulary().piece(id);
    RINGLET_CHECK(piece.find_first_of("\r\n") == std::string_view::npos, "[Tokenizer] piece ", id,
                  " has a line break, vocab.txt cannot hold it");
    text.append(piece) += '\n';
  }
  return text;
}

}  // namespace

Tokenizer Tokenizer::from_file(const fs::path& path) {
  return Tokenizer(read_tokenizer_json(JsonNode(path)));
}

Tokenizer Tokenizer::from_vocab(const fs::path& path, const TokenizerOptions& options) {
  return Tokenizer(make_model(Vocabulary::from_file(path), options, path.string()));
}

Tokenizer Tokenizer::from_pieces(std::span<const std::string> pieces,
                                 const TokenizerOptions& options, std::string_view source) {
  return Tokenizer(make_model(Vocabulary(pieces, source), options, std::string(source)));
}

TokenizerModel read_tokenizer_folder(const fs::path& folder, const TokenizerConfig& overrides,
                                     Notes& notes) {
  TokenizerConfig config = read_config(folder, overrides, notes);
  TokenizerModel model = read_model(folder, config, notes);
  const bool distilbert = config.tokenizer_class.value_or("").starts_with("DistilBertTokenizer");
  model.token_types = !distilbert && std::holds_alternative<BertSplit>(model.pre_tokenizer);
  model.truncate_left = config.truncate_left.value_or(model.truncate_left);
  // Python's calls ignore the length of tokenizer.json's truncation.
  model.max_length = config.model_max_length.value_or(0);
  const std::int64_t special = model.post_processor.added(false);
  if (model.max_length != 0 && model.max_length < special) {
    fail_input((folder / kConfigFile).string(), ": model_max_length: expected at least the ",
               special, " special tokens, got ", model.max_length);
  }
  return model;
}

Tokenizer Tokenizer::from_pretrained(const fs::path& folder, Notes* notes) {
  Notes ignored;
  return Tokenizer(read_tokenizer_folder(folder, {}, notes != nullptr ? *notes : ignored));
}

void Tokenizer::save(const fs::path& folder) const {
  // Composed before any write, so that an error leaves the folder unchanged.
  const bool wordpiece = dynamic_cast<const WordPiece*>(model_->pieces.get()) != nullptr;
  const std::string vocab = wordpiece ? dump_vocab(*model_->pieces) : "";
  write_file(folder / "tokenizer.json", dump_tokenizer_json(*model_, max_length_));
  write_file(folder / "tokenizer_config.json", dump_tokenizer_config(*model_, max_length_));
  write_file(folder / "special_tokens_map.json", dump_special_tokens_map(*model_));
  if (wordpiece) write_file(folder / "vocab.txt", vocab);
}

}  // namespace ringlet::models
