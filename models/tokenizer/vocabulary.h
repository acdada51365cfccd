// A vocabulary: word pieces and their ids, which are 0, 1, 2, ... in order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
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

}  // namespace ringlet::models
