// Values that an op cannot use: a label without a class, an id without a row, sentences that do not
// tile the tokens. On a CPU the op throws; a GPU's kernel reports one, and the next copy of a
// result to the host throws.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet {

enum class BadInputKind : std::uint32_t { none, label, sentence, word_id, position_id, type_id };

/// The kind of an id for embedding table 0 (words), 1 (positions) or 2 (token types).
RINGLET_HOST_DEVICE BadInputKind id_kind(int table) {
  return static_cast<BadInputKind>(static_cast<int>(BadInputKind::word_id) + table);
}
const char* table_name(BadInputKind id);

struct BadInput {
  BadInputKind kind;
  std::int64_t at;     // row, token or sentence
  std::int64_t value;  // label or id; of a sentence its first token
  std::int64_t limit;  // labels and ids are below it; of a sentence the token behind its last
};

[[noreturn]] void fail_bad_input(const BadInput& input);

/// The sentences of a packed batch.
struct SentenceBounds {
  const std::int32_t* cu_seqlens;  // (sentences + 1)
  const std::int32_t* lengths;     // (sentences) tokens that count, null means all
  std::int64_t sentences;
  std::int64_t tokens;

  /// Whether sentence `s` lies within the tokens, the first at their begin, the last at their end.
  /// Tokens that count must exist, and be at least one.
  RINGLET_HOST_DEVICE bool hold(std::int64_t s) const {
    // Unsigned, so that a negative one is above the rest.
    const auto begin = static_cast<std::uint32_t>(cu_seqlens[s]);
    const auto end = static_cast<std::uint32_t>(cu_seqlens[s + 1]);
    const auto last = static_cast<std::uint32_t>(tokens);
    return begin <= end && end <= last && (s > 0 || begin == 0) &&
           (s + 1 < sentences || end == last) &&
           (!lengths || (lengths[s] > 0 && static_cast<std::uint32_t>(lengths[s]) <= end - begin));
  }
};

/// `Args`: an op's arguments or attention's shape.
template <class Args>
RINGLET_HOST_DEVICE SentenceBounds bounds_of(const Args& args) {
  return {args.cu_seqlens, args.lengths, args.sentences, args.tokens};
}

}  // namespace ringlet
