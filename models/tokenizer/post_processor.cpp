#include "ringlet/models/tokenizer/post_processor.h"

#include <algorithm>

namespace ringlet::models {
namespace {

using Kind = TemplatePiece::Kind;
using Ids = std::span<const std::int32_t>;

Template single_template(std::int32_t cls, std::int32_t sep) {
  return {{Kind::kSpecial, 0, cls}, {Kind::kFirst}, {Kind::kSpecial, 0, sep}};
}

Ids ids_of(const TemplatePiece& piece, Ids first, Ids second) {
  if (piece.kind == Kind::kSpecial) return {&piece.id, 1};
  return piece.kind == Kind::kFirst ? first : second;
}

void fill(const Template& pieces, Ids first, Ids second, Encoding& out) {
  for (const TemplatePiece& piece : pieces) {
    const Ids ids = ids_of(piece, first, second);
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.type_ids.insert(out.type_ids.end(), ids.size(), piece.type_id);
  }
}

}  // namespace

PostProcessor PostProcessor::bert(std::int32_t cls, std::int32_t sep) {
  return {single_template(cls, sep),
          {{Kind::kSpecial, 0, cls},
           {Kind::kFirst},
           {Kind::kSpecial, 0, sep},
           {Kind::kSecond, 1},
           {Kind::kSpecial, 1, sep}}};
}

PostProcessor PostProcessor::roberta(std::int32_t cls, std::int32_t sep) {
  return {single_template(cls, sep),
          {{Kind::kSpecial, 0, cls},
           {Kind::kFirst},
           {Kind::kSpecial, 0, sep},
           {Kind::kSpecial, 0, sep},
           {Kind::kSecond},
           {Kind::kSpecial, 0, sep}}};
}

std::int64_t PostProcessor::added(bool pair_given) const {
  const Template& pieces = pair_given ? pair : single;
  return std::count_if(pieces.begin(), pieces.end(),
                       [](const TemplatePiece& piece) { return piece.kind == Kind::kSpecial; });
}

void PostProcessor::append(Ids first, std::vector<std::int32_t>& ids) const {
  for (const TemplatePiece& piece : single) {
    const Ids part = ids_of(piece, first, {});
    ids.insert(ids.end(), part.begin(), part.end());
  }
}

void PostProcessor::append(Ids first, Encoding& out) const { fill(single, first, {}, out); }

void PostProcessor::append(Ids first, Ids second, Encoding& out) const {
  fill(pair, first, second, out);
}

}  // namespace ringlet::models
