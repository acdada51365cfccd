#include "ringlet/models/tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

/// Spreads the state over all bits: the low bits of FNV alone are weak.
std::uint64_t mix(std::uint64_t state) {
  state ^= state >> 32;
  state *= 0x9E3779B97F4A7C15u;
  return state ^ state >> 29;
}

}  // namespace

Vocabulary::Vocabulary(std::span<const std::string> pieces, std::string_view source)
    : slots_(std::bit_ceil(2 * pieces.size() + 1), Slot{0, kMissing}) {
  ends_.reserve(pieces.size());
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (!unicode::is_valid(pieces[id])) {
      fail_input(source, ": expected UTF-8 text, piece ", id, " is not");
    }
    bytes_ += pieces[id];
    ends_.push_back(bytes_.size());
    longest_ = std::max(longest_, pieces[id].size());
    insert(static_cast<std::int32_t>(id), source);
  }
}

Vocabulary Vocabulary::from_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::string_view text = file.text();
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    pieces.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (pieces.empty()) fail_input(path.string(), ": expected one word piece a line, it is empty");
  return Vocabulary(pieces, path.string());
}

std::string_view Vocabulary::text(std::int32_t id) const {
  const auto i = static_cast<std::size_t>(id);
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(bytes_).substr(begin, ends_[i] - begin);
}

std::string_view Vocabulary::piece(std::int32_t id) const {
  RINGLET_CHECK(id >= 0 && id < size(), "[Vocabulary] id ", id, " is outside 0..", size() - 1);
  return text(id);
}

void Vocabulary::insert(std::int32_t id, std::string_view source) {
  const std::string_view piece = text(id);
  const std::uint64_t mixed = mix(hash(kHashStart, piece));
  const auto tag = static_cast<std::uint32_t>(mixed >> 32);
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = mixed & mask;
  for (; slots_[i].id != kMissing; i = (i + 1) & mask) {
    if (slots_[i].tag == tag && text(slots_[i].id) == piece) {
      fail_input(source, ": expected distinct pieces, ", id, " and ", slots_[i].id, " are both ",
                 quote(piece));
    }
  }
  slots_[i] = {tag, id};
}

std::uint64_t Vocabulary::hash(std::uint64_t state, std::string_view bytes) {
  for (const char byte : bytes) {
    state = (state ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  }
  return state;
}

std::int32_t Vocabulary::find(std::string_view head, std::string_view tail) const {
  return find(hash(hash(kHashStart, head), tail), head, tail);
}

std::int32_t Vocabulary::find(std::uint64_t hash, std::string_view head,
                              std::string_view tail) const {
  if (slots_.empty()) return kMissing;
  const std::uint64_t mixed = mix(hash);
  const auto tag = static_cast<std::uint32_t>(mixed >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = mixed & mask; slots_[i].id != kMissing; i = (i + 1) & mask) {
    if (slots_[i].tag != tag) continue;
    const std::string_view piece = text(slots_[i].id);
    if (piece.size() == head.size() + tail.size() && piece.starts_with(head) &&
        piece.ends_with(tail)) {
      return slots_[i].id;
    }
  }
  return kMissing;
}

}  // namespace ringlet::models
