#include <algorithm>
#include <utility>

#include "ringlet/core/error.h"
#include "ringlet/core/file.h"
#include "ringlet/core/quote.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

namespace ringlet::models {
namespace {

namespace fs = std::filesystem;

std::int32_t require(const Vocabulary& vocabulary, std::string_view token,
                     std::string_view source) {
  const std::int32_t id = vocabulary.find(token);
  if (id == Vocabulary::kMissing) {
    fail_input(source, ": expected the special token ", quote(token),
               " in the vocabulary, it is not there");
  }
  return id;
}

TokenizerFamily guess_family(const Vocabulary& vocabulary) {
  return vocabulary.find("<s>") == Vocabulary::kMissing ? TokenizerFamily::kBert
                                                        : TokenizerFamily::kMpnet;
}

struct Names {
  std::string_view cls, sep, pad, mask;
};

constexpr std::string_view kUnknown = "[UNK]";  // in MPNet too: its "<unk>" is not used

Names names_of(TokenizerFamily family) {
  if (family == TokenizerFamily::kMpnet) return {"<s>", "</s>", "<pad>", "<mask>"};
  return {"[CLS]", "[SEP]", "[PAD]", "[MASK]"};
}

void add_special(const Vocabulary& vocabulary, const SpecialTokens& special, bool lstrip_mask,
                 std::vector<AddedToken>& tokens) {
  for (const std::int32_t id : {special.cls, special.sep, special.pad, special.unk, special.mask}) {
    if (id < 0) continue;
    AddedToken token;
    token.id = id;
    token.content = vocabulary.piece(id);
    token.lstrip = lstrip_mask && id == special.mask;
    tokens.push_back(std::move(token));
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

TokenizerModel make_model(Vocabulary vocabulary, const TokenizerOptions& options,
                          std::string_view source) {
  const TokenizerFamily family = options.family.value_or(guess_family(vocabulary));
  const Names names = names_of(family);
  const bool mpnet = family == TokenizerFamily::kMpnet;
  TokenizerModel model;
  model.normalizer = options.normalizer;
  model.max_length = options.max_length;
  model.special = {require(vocabulary, names.cls, source), require(vocabulary, names.sep, source),
                   require(vocabulary, names.pad, source), require(vocabulary, kUnknown, source),
                   vocabulary.find(names.mask)};
  add_special(vocabulary, model.special, mpnet, model.added_tokens);
  model.post_processor = mpnet ? PostProcessor::roberta(model.special.cls, model.special.sep)
                               : PostProcessor::bert(model.special.cls, model.special.sep);
  const std::int32_t size = vocabulary.size();
  model.wordpiece = WordPiece(std::move(vocabulary), size, {}, source);
  return model;
}

/// What the files beside a vocabulary say, the later one on top of the earlier.
std::vector<std::pair<TokenizerConfig, std::string>> read_configs(const fs::path& folder) {
  std::vector<std::pair<TokenizerConfig, std::string>> configs;
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const fs::path path = folder / name;
    if (!path_exists(path)) continue;
    configs.emplace_back(parse_tokenizer_config(MappedFile(path).text(), path.string()),
                         path.string());
  }
  return configs;
}

void apply(const TokenizerConfig& config, BertNormalizer& normalizer) {
  const bool followed = normalizer.strip_accents == normalizer.lowercase;
  normalizer.lowercase = config.do_lower_case.value_or(normalizer.lowercase);
  normalizer.handle_chinese_chars =
      config.tokenize_chinese_chars.value_or(normalizer.handle_chinese_chars);
  if (config.strip_accents) {
    normalizer.strip_accents = config.strip_accents->value_or(normalizer.lowercase);
  } else if (followed) {
    normalizer.strip_accents = normalizer.lowercase;
  }
}

void apply(const TokenizerConfig& config, const std::string& source, TokenizerModel& model) {
  apply(config, model.normalizer);
  const auto set = [&](const std::optional<std::string>& token, std::int32_t& id) {
    if (token) id = require(model.wordpiece.vocabulary(), *token, source);
  };
  set(config.cls_token, model.special.cls);
  set(config.sep_token, model.special.sep);
  set(config.pad_token, model.special.pad);
  set(config.mask_token, model.special.mask);
  if (config.model_max_length) {
    const std::int64_t added = model.post_processor.added(false);
    model.max_length = *config.model_max_length;
    if (model.max_length != 0 && model.max_length < added) {
      fail_input(source, ": model_max_length: expected at least the ", added,
                 " special tokens, got ", model.max_length);
    }
  }
}

TokenizerOptions options_from(const std::vector<std::pair<TokenizerConfig, std::string>>& configs) {
  TokenizerOptions options;
  for (const auto& [config, source] : configs) {
    const std::string name = config.tokenizer_class.value_or("");
    if (name.starts_with("MPNet")) options.family = TokenizerFamily::kMpnet;
    if (name.starts_with("Bert")) options.family = TokenizerFamily::kBert;
  }
  return options;
}

/// vocab.txt holds a piece a line, so a piece with a line break in it cannot be written.
std::string dump_vocab(const WordPiece& wordpiece) {
  std::string text;
  for (std::int32_t id = 0; id < wordpiece.size(); ++id) {
    const std::string_view piece = wordpiece.vocabulary().piece(id);
    RINGLET_CHECK(piece.find_first_of("\r\n") == std::string_view::npos, "[Tokenizer] piece ", id,
                  " has a line break, vocab.txt cannot hold it");
    text.append(piece) += '\n';
  }
  return text;
}

}  // namespace

Tokenizer Tokenizer::from_file(const fs::path& path) {
  return Tokenizer(parse_tokenizer_json(MappedFile(path).text(), path.string()));
}

Tokenizer Tokenizer::from_vocab(const fs::path& path, const TokenizerOptions& options) {
  return Tokenizer(make_model(Vocabulary::from_file(path), options, path.string()));
}

Tokenizer Tokenizer::from_pieces(std::span<const std::string> pieces,
                                 const TokenizerOptions& options, std::string_view source) {
  return Tokenizer(make_model(Vocabulary(pieces, source), options, source));
}

Tokenizer Tokenizer::from_pretrained(const fs::path& folder) {
  const auto configs = read_configs(folder);
  const fs::path file = folder / "tokenizer.json";
  const fs::path vocab = folder / "vocab.txt";
  if (!path_exists(file) && !path_exists(vocab)) {
    fail_input(folder.string(), ": expected tokenizer.json or vocab.txt, neither is there");
  }
  TokenizerModel model =
      path_exists(file)
          ? parse_tokenizer_json(MappedFile(file).text(), file.string())
          : make_model(Vocabulary::from_file(vocab), options_from(configs), vocab.string());
  for (const auto& [config, source] : configs) apply(config, source, model);
  return Tokenizer(std::move(model));
}

void Tokenizer::save(const fs::path& folder) const {
  // Composed before anything is written, so that a refusal leaves the folder as it was.
  const std::string vocab = dump_vocab(model_->wordpiece);
  write_file(folder / "tokenizer.json", dump_tokenizer_json(*model_, max_length_));
  write_file(folder / "tokenizer_config.json", dump_tokenizer_config(*model_, max_length_));
  write_file(folder / "special_tokens_map.json", dump_special_tokens_map(*model_));
  write_file(folder / "vocab.txt", vocab);
}

}  // namespace ringlet::models
