// Puts special tokens around one text or two: "[CLS] A [SEP] B [SEP]".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ringlet::models {

/// Ids of the tokens with a role; -1 where the tokenizer has none.
struct SpecialTokens {
  std::int32_t cls = -1;
  std::int32_t sep = -1;
  std::int32_t pad = -1;
  std::int32_t unk = -1;
  std::int32_t mask = -1;

  bool operator==(const SpecialTokens&) const = default;
};

/// Token ids of one input, and for each its text (BERT's token types).
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> type_ids;
};

/// One element of a template: a special token, or all ids of the first or second text.
struct TemplatePiece {
  enum class Kind { kSpecial, kFirst, kSecond };
  Kind kind = Kind::kSpecial;
  std::int32_t type_id = 0;
  std::int32_t id = 0;  // of the special token
};

using Template = std::vector<TemplatePiece>;

struct PostProcessor {
  Template single;
  Template pair;

  /// "cls A sep" and "cls A sep B sep", the second text (and its separator) of type 1.
  static PostProcessor bert(std::int32_t cls, std::int32_t sep);
  /// "cls A sep" and "cls A sep sep B sep", all of type 0. MPNet uses this form.
  static PostProcessor roberta(std::int32_t cls, std::int32_t sep);

  /// The number of special tokens.
  std::int64_t added(bool pair_given) const;
  /// Appends the filled template to `out`.
  void append(std::span<const std::int32_t> first, std::vector<std::int32_t>& ids) const;
  void append(std::span<const std::int32_t> first, Encoding& out) const;
  void append(std::span<const std::int32_t> first, std::span<const std::int32_t> second,
              Encoding& out) const;
};

}  // namespace ringlet::models
