// Vocabularies, and the models that divide a word into their pieces: WordPiece, Unigram and byte
// pairs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ringlet::models {

inline constexpr std::int64_t kMostIds = std::numeric_limits<std::int32_t>::max();

/// Lookups in both directions take constant time without allocation. A value; 30,522 pieces take 1
/// MB.
class Vocabulary {
 public:
  /// The result of find() for a missing piece.
  static constexpr std::int32_t kMissing = -1;

  Vocabulary() = default;
  /// Piece i gets id i. Pieces are UTF-8 and distinct, otherwise InputError that begins with
  /// `source` and names the two ids.
  explicit Vocabulary(std::span<const std::string> pieces, std::string_view source = "vocabulary");
  /// One piece per line without white space at its end; id = line number from 0 (vocab.txt of BERT
  /// and MPNet). The last of equal pieces counts; the others keep their ids without a text. Blank
  /// lines at the end are none.
  static Vocabulary from_file(const std::filesystem::path& path);

  std::int32_t size() const { return static_cast<std::int32_t>(ends_.size()); }
  /// `id` must be in [0, size()), otherwise Error.
  std::string_view piece(std::int32_t id) const;
  /// The first `count` pieces.
  std::vector<std::string> pieces(std::int32_t count) const;
  std::int32_t find(std::string_view piece) const { return find("", piece); }
  /// The id of the piece `head` + `tail`.
  std::int32_t find(std::string_view head, std::string_view tail) const;

  /// An incremental hash: hash(hash(kHashStart, "##"), "ing").
  static constexpr std::uint64_t kHashStart = 0xCBF29CE484222325u;
  static std::uint64_t hash(std::uint64_t state, std::string_view bytes);
  /// find(head, tail), given the hash of both.
  std::int32_t find(std::uint64_t hash, std::string_view head, std::string_view tail) const;
  /// False for a file with equal lines or blank ones at its end. There transformers gives a new
  /// piece an id that a line has.
  bool can_grow() const { return can_grow_; }
  /// Bytes of the longest piece.
  std::size_t longest() const { return longest_; }

 private:
  struct Slot {
    std::uint32_t tag;
    std::int32_t id = kMissing;
  };
  std::string_view text(std::int32_t id) const;
  void insert(std::int32_t id, std::string_view source);

  std::string bytes_;              // all pieces, contiguous
  std::vector<std::size_t> ends_;  // piece i is bytes_[ends_[i - 1], ends_[i])
  std::vector<Slot> slots_;        // open addressing, a power of two, at most half full
  std::size_t longest_ = 0;
  bool can_grow_ = true;
};

class PieceModel {
 public:
  virtual ~PieceModel() = default;

  /// Appends the ids of one word, which is UTF-8 and not empty.
  virtual void append(std::string_view word, std::vector<std::int32_t>& ids) const = 0;
  /// `vocabulary` has the pieces of this model's and then more added tokens.
  void grow(Vocabulary vocabulary) { vocabulary_ = std::move(vocabulary); }

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The number of pieces of words. Later ones are added tokens, matched in the text itself.
  std::int32_t size() const { return size_; }
  /// Vocabulary::kMissing if the model has none.
  std::int32_t unk_id() const { return unk_id_; }

 protected:
  PieceModel(Vocabulary vocabulary, std::int32_t size, std::int32_t unk_id)
      : vocabulary_(std::move(vocabulary)), size_(size), unk_id_(unk_id) {}

  Vocabulary vocabulary_;
  std::int32_t size_, unk_id_;
};

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  /// Marks pieces that continue a word: "playing" = "play" + "##ing".
  std::string continuing_subword_prefix = "##";
  /// Words of more code points than this are unknown.
  std::int64_t max_input_chars_per_word = 100;
};

class WordPiece final : public PieceModel {
 public:
  /// Words consist of the first `size` pieces. `unk_token` must be one of them, otherwise
  /// InputError that begins with `source`.
  WordPiece(Vocabulary vocabulary, std::int32_t size, WordPieceOptions options,
            std::string_view source = "vocabulary");

  /// Appends the ids of one word, or the unknown id if its pieces do not cover it.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const override;

  const WordPieceOptions& options() const { return options_; }

 private:
  std::int32_t longest_prefix(std::string_view head, std::string_view rest,
                              std::size_t& nbytes) const;

  WordPieceOptions options_;
  std::uint64_t prefix_hash_ = Vocabulary::kHashStart;
};

class Unigram final : public PieceModel {
 public:
  /// The first scores.size() pieces have these log-probabilities; `unk_id` is among them.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, std::int32_t unk_id);

  /// Maximizes the sum of scores. A character without its own piece may be unknown, at the lowest
  /// score less 10; neighbouring unknown characters give one id. If sums are equal, the split with
  /// the longer last piece counts.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const override;

  const std::vector<double>& scores() const { return scores_; }

 private:
  std::vector<double> scores_;
  double unk_score_;
};

class Bpe final : public PieceModel {
 public:
  /// Two pieces and the one that they become; all are ids below size().
  struct Merge {
    std::int32_t left;
    std::int32_t right;
    std::int32_t merged;
  };

  /// `merges` by rank; of equal pairs the last counts. A word's characters are the first `size`
  /// pieces; one that is not becomes `unk_id`, or nothing if that is Vocabulary::kMissing.
  Bpe(Vocabulary vocabulary, std::int32_t size, std::vector<Merge> merges, std::int32_t unk_id);

  /// O(n log n) in the characters of the word. Pairs of one rank merge from the left.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const override;

  const std::vector<Merge>& merges() const { return merges_; }

 private:
  /// The rank of the pair, or -1.
  std::int32_t rank(std::int32_t left, std::int32_t right) const;
  std::vector<std::int32_t> characters(std::string_view word) const;

  std::vector<Merge> merges_;
  std::unordered_map<std::uint64_t, std::int32_t> ranks_;
};

}  // namespace ringlet::models
