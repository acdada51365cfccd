#include "ringlet/models/tokenizer/piece_model.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

/// `line` without white space at its end, as transformers reads pieces.
std::string_view trimmed(std::string_view line) {
  return line.substr(0, unicode::skip_whitespace_before(line, line.size()));
}

/// Gives pieces that occur again later a name that no word has. Returns whether there are any.
bool rename_repeated(std::vector<std::string>& pieces) {
  std::unordered_map<std::string, std::size_t> last;
  for (std::size_t id = 0; id < pieces.size(); ++id) last[pieces[id]] = id;
  for (std::size_t id = 0; id < pieces.size(); ++id)
    if (last.at(pieces[id]) != id) pieces[id] = str("[repeated ", id, "]");
  return last.size() < pieces.size();
}

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
  check_kind(text, path.string());
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    pieces.emplace_back(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const std::size_t lines = pieces.size();
  while (!pieces.empty() && pieces.back().empty()) pieces.pop_back();
  if (pieces.empty()) fail_input(path.string(), ": expected one word piece a line, it is empty");
  const bool repeated = rename_repeated(pieces);
  Vocabulary vocabulary(pieces, path.string());
  vocabulary.can_grow_ = !repeated && pieces.size() == lines;
  return vocabulary;
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

std::vector<std::string> Vocabulary::pieces(std::int32_t count) const {
  std::vector<std::string> pieces;
  for (std::int32_t id = 0; id < count; ++id) pieces.emplace_back(piece(id));
  return pieces;
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
