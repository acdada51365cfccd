#include <algorithm>
#include <sstream>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

namespace ringlet::models {
namespace {

/// The type; older files leave it out.
std::string type_of(const JsonNode& model) {
  if (!model.has("type"))
    return model.has("merges") ? "BPE" : model.has("unk_id") ? "Unigram" : "WordPiece";
  const std::string type = model.at("type").text();
  if (type != "WordPiece" && type != "Unigram" && type != "BPE")
    model.at("type").expected("WordPiece, Unigram or BPE");
  return type;
}

/// {"piece": id, ...} with the ids 0, 1, ..., n - 1.
std::vector<std::string> read_ids(const JsonNode& vocab) {
  const Json::Object& members = vocab.object().value().items();
  if (members.empty()) vocab.expected("word pieces");
  std::vector<std::string> pieces(members.size());
  std::vector<bool> seen(members.size());
  for (const auto& [piece, value] : members) {
    const bool is_id = value.is_number_unsigned() && value.unsigned_integer() < members.size();
    if (!is_id) {
      vocab.at(piece).expected(str("an id from 0 to ", members.size() - 1, " (", members.size(),
                                   " pieces, no id left out)"));
    }
    const auto id = value.unsigned_integer();
    if (seen[id]) {
      fail_input(vocab.name(), ": expected each id once, ", id, " belongs to both ",
                 quote(pieces[id]), " and ", quote(piece));
    }
    seen[id] = true;
    pieces[id] = piece;
  }
  return pieces;
}

/// [["piece", score], ...]
std::vector<std::string> read_scored(const JsonNode& vocab) {
  std::vector<std::string> pieces;
  for (const Json& entry : vocab.array().value()) {
    const bool pair =
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!pair) vocab.at(pieces.size()).expected("a piece and its score");
    pieces.push_back(entry[0].text());
  }
  if (pieces.empty()) vocab.expected("pieces");
  return pieces;
}

std::shared_ptr<PieceModel> read_unigram(const JsonNode& model, Vocabulary vocabulary,
                                         std::int32_t size) {
  if (model.get_or("byte_fallback", false)) model.at("byte_fallback").expected("false");
  const auto unk = static_cast<std::int32_t>(model.at("unk_id").integer(0, size - 1));
  std::vector<double> scores;
  for (const Json& entry : model.at("vocab").value()) scores.push_back(entry[1].number());
  return std::make_shared<Unigram>(std::move(vocabulary), std::move(scores), unk);
}

/// "a b", or ["a", "b"] in newer files.
Bpe::Merge read_merge(const JsonNode& node, const Vocabulary& vocabulary, std::int32_t size) {
  std::string left, right;
  if (node.value().is_array() && node.size() == 2) {
    left = node.at(0).text();
    right = node.at(1).text();
  } else {
    const std::string text = node.text();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      node.expected("two pieces");
    left = text.substr(0, space);
    right = text.substr(space + 1);
  }
  const Bpe::Merge merge{vocabulary.find(left), vocabulary.find(right),
                         vocabulary.find(left, right)};
  for (const std::int32_t id : {merge.left, merge.right, merge.merged})
    if (id == Vocabulary::kMissing || id >= size)
      node.expected("two pieces of the vocabulary, which also has both as one");
  return merge;
}

std::shared_ptr<PieceModel> read_bpe(const JsonNode& model, Vocabulary vocabulary,
                                     std::int32_t size) {
  for (const char* key : {"fuse_unk", "byte_fallback", "ignore_merges"})
    if (model.get_or(key, false)) model.at(key).expected("false");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.has(key) && !model.at(key).text().empty()) model.at(key).expected("no text");
  if (model.has("dropout") && model.at("dropout").value() != 0)
    model.at("dropout").expected("null or 0");
  std::int32_t unk = Vocabulary::kMissing;
  if (model.has("unk_token")) {
    unk = vocabulary.find(model.at("unk_token").text());
    if (unk == Vocabulary::kMissing) model.at("unk_token").expected("a piece of the vocabulary");
  }
  std::vector<Bpe::Merge> merges;
  for (const JsonNode& merge : model.at("merges").elements())
    merges.push_back(read_merge(merge, vocabulary, size));
  return std::make_shared<Bpe>(std::move(vocabulary), size, std::move(merges), unk);
}

WordPieceOptions read_wordpiece_options(const JsonNode& model) {
  WordPieceOptions options;
  options.unk_token = model.at("unk_token").text();
  options.continuing_subword_prefix = model.at("continuing_subword_prefix").text();
  options.max_input_chars_per_word = model.at("max_input_chars_per_word").integer(1, kMostIds);
  return options;
}

Json dump_ids(const PieceModel& model) {
  Json vocab = Json::object();
  // operator[] of an object searches all members at every call.
  Json::Object& members = vocab.items();
  for (std::int32_t id = 0; id < model.size(); ++id)
    members.emplace_back(std::string(model.vocabulary().piece(id)), id);
  return vocab;
}

/// "a b", which all releases read, or ["a", "b"] if a piece has a space.
Json dump_bpe(const Bpe& model) {
  const auto piece = [&](std::int32_t id) { return std::string(model.vocabulary().piece(id)); };
  const auto spaced = [&](const Bpe::Merge& m) {
    return piece(m.merged).find(' ') != std::string::npos;
  };
  const bool pairs = std::ranges::any_of(model.merges(), spaced);
  Json merges = Json::array();
  for (const Bpe::Merge& merge : model.merges()) {
    const std::string left = piece(merge.left), right = piece(merge.right);
    merges.push_back(pairs ? Json{left, right} : Json(left + " " + right));
  }
  const bool unknown = model.unk_id() != Vocabulary::kMissing;
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown ? Json(piece(model.unk_id())) : Json(nullptr)},
          {"continuing_subword_prefix", ""},
          {"end_of_word_suffix", ""},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"vocab", dump_ids(model)},
          {"merges", std::move(merges)}};
}

Json dump_unigram(const Unigram& model) {
  Json vocab = Json::array();
  for (std::int32_t id = 0; id < model.size(); ++id)
    vocab.push_back(
        {std::string(model.vocabulary().piece(id)), model.scores()[static_cast<std::size_t>(id)]});
  return {{"type", "Unigram"},
          {"unk_id", model.unk_id()},
          {"vocab", std::move(vocab)},
          {"byte_fallback", false}};
}

/// Pairs of pieces, one a line. As in transformers, blank lines and "#version" are none; "# #" is a
/// pair.
Json read_merges(const std::filesystem::path& path) {
  Json merges = Json::array();
  std::istringstream lines(read_file(path));
  check_kind(lines.view(), path.string());
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string left, right, more;
    if (!(words >> left) || left.starts_with("#version")) continue;
    if (!(words >> right) || words >> more)
      fail_input(path.string(), ":", number, ": expected two pieces, found ", quote(line));
    merges.push_back({left, right});
  }
  return merges;
}

}  // namespace

std::vector<std::string> read_pieces(const JsonNode& model) {
  const JsonNode vocab = model.at("vocab");
  return type_of(model) == "Unigram" ? read_scored(vocab) : read_ids(vocab);
}

std::shared_ptr<PieceModel> read_piece_model(const JsonNode& model, Vocabulary vocabulary,
                                             std::int32_t size) {
  const std::string type = type_of(model);
  if (type == "Unigram") {
    model.ignore({"unk_id", "vocab", "byte_fallback"});
    model.name_unused();
    return read_unigram(model, std::move(vocabulary), size);
  }
  if (type == "BPE") {
    model.ignore({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    model.name_unused();
    return read_bpe(model, std::move(vocabulary), size);
  }
  model.ignore({"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  model.name_unused();
  return std::make_shared<WordPiece>(std::move(vocabulary), size, read_wordpiece_options(model),
                                     model.source());
}

Json dump_piece_model(const PieceModel& model) {
  if (const auto* unigram = dynamic_cast<const Unigram*>(&model)) return dump_unigram(*unigram);
  if (const auto* bpe = dynamic_cast<const Bpe*>(&model)) return dump_bpe(*bpe);
  const WordPieceOptions& options = dynamic_cast<const WordPiece&>(model).options();
  return {{"type", "WordPiece"},
          {"unk_token", options.unk_token},
          {"continuing_subword_prefix", options.continuing_subword_prefix},
          {"max_input_chars_per_word", options.max_input_chars_per_word},
          {"vocab", dump_ids(model)}};
}

TokenizerModel read_bpe_files(const std::filesystem::path& vocab,
                              const std::filesystem::path& merges) {
  const Json words{{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", true}};
  const Json file{
      {"normalizer", nullptr},
      {"pre_tokenizer", words},
      {"decoder", words},
      {"model",
       {{"type", "BPE"}, {"vocab", JsonNode(vocab).value()}, {"merges", read_merges(merges)}}}};
  return read_tokenizer_json({file, vocab.string()});
}

}  // namespace ringlet::models
