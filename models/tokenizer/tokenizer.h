// Text to token ids and back: the same ids as Hugging Face's tokenizers. For BERT and MPNet
// (WordPiece), XLM-R (Unigram) and RoBERTa (byte pairs).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/models/tokenizer/normalizer.h"
#include "ringlet/models/tokenizer/post_processor.h"

namespace ringlet::models {

/// Texts stored contiguously without padding: text i is ids[cu_seqlens[i], cu_seqlens[i + 1]).
struct PackedEncoding {
  std::vector<std::int32_t> ids;         // (T)
  std::vector<std::int32_t> cu_seqlens;  // (texts + 1)
};

/// Which names the special tokens have and how a pair is joined.
enum class TokenizerFamily {
  kBert,   // [PAD] [UNK] [CLS] [SEP] [MASK]; "[CLS] A [SEP] B [SEP]"
  kMpnet,  // <s> <pad> </s> [UNK] <mask>; "<s> A </s> </s> B </s>"
};

/// Settings that a vocabulary does not contain; the defaults are those of the uncased models.
struct TokenizerOptions {
  /// Unset: MPNet if the vocabulary has "<s>", otherwise BERT.
  std::optional<TokenizerFamily> family = {};
  BertNormalizer normalizer = {};
  /// 0 = no limit.
  std::int64_t max_length = 512;
};

class Vocabulary;
struct TokenizerModel;

/// A value, cheap to copy; const members may be called from many threads at once.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerModel model);
  /// Reads tokenizer.json. InputError names a feature that this class cannot reproduce exactly, or
  /// a field of the wrong type or out of range.
  static Tokenizer from_file(const std::filesystem::path& path);
  /// Reads vocab.txt, one piece a line.
  static Tokenizer from_vocab(const std::filesystem::path& path,
                              const TokenizerOptions& options = {});
  /// Piece i has id i. `source` begins the messages about what is wrong with them.
  static Tokenizer from_pieces(std::span<const std::string> pieces,
                               const TokenizerOptions& options = {},
                               std::string_view source = "vocabulary");
  /// Reads a model folder as transformers' AutoTokenizer does, by the class that
  /// tokenizer_config.json or config.json names. BertTokenizer and MPNetTokenizer take only
  /// vocabulary and added tokens from tokenizer.json (or vocab.txt), and the rest from
  /// tokenizer_config.json; XLMRobertaTokenizer, RobertaTokenizer, PreTrainedTokenizerFast and
  /// TokenizersBackend take their words from tokenizer.json and no cleaning from
  /// tokenizer_config.json. Without a class, tokenizer.json is used unchanged and the family of a
  /// vocab.txt is guessed. Keys of the files without effect are appended to `notes`, as
  /// "FILE: 'key'".
  static Tokenizer from_pretrained(const std::filesystem::path& folder,
                                   std::vector<std::string>* notes = nullptr);

  /// Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json and, for WordPiece,
  /// vocab.txt, which
  /// AutoTokenizer and SentenceTransformer read with the same ids as result.
  void save(const std::filesystem::path& folder) const;

  /// Special tokens included, cut to max_length().
  Encoding encode(std::string_view text) const;
  /// Two texts; the longer one is cut first (Hugging Face's `longest_first`).
  Encoding encode(std::string_view text, std::string_view pair) const;
  /// The same ids as encode(text) for each text, contiguous.
  PackedEncoding encode_batch(std::span<const std::string> texts) const;
  /// Appends the ids of encode(text) to `ids`.
  void append(std::string_view text, std::vector<std::int32_t>& ids) const;

  /// Pieces joined to words; special tokens are left out unless asked for.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;

  /// Longest result of encode, special tokens included; 0 = no limit.
  std::int64_t max_length() const { return max_length_; }
  /// Must be 0 or leave room for the special tokens of a single text, otherwise Error.
  void set_max_length(std::int64_t max_length);

  const SpecialTokens& special() const;
  /// Pieces, added tokens included: the rows a model's embedding needs.
  std::int64_t vocab_size() const;
  const Vocabulary& vocabulary() const;
  /// See models/tokenizer/tokenizer_model.h.
  const TokenizerModel& model() const { return *model_; }

 private:
  struct Shared;
  struct Scratch;
  void append_tokens(std::string_view text, Scratch& scratch) const;
  void append_segment(std::string_view text, bool first, Scratch& scratch) const;
  void append_words(std::string_view text, bool first, Scratch& scratch) const;
  std::size_t room(bool pair) const;
  std::span<const std::int32_t> cut(std::span<const std::int32_t> ids, std::size_t length) const;

  std::shared_ptr<const TokenizerModel> model_;
  std::shared_ptr<const Shared> shared_;
  std::int64_t max_length_ = 0;
};

}  // namespace ringlet::models
