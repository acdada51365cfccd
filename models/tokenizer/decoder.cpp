#include <algorithm>
#include <array>
#include <utility>

#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/models/tokenizer/tokenizer_model.h"
#include "ringlet/models/tokenizer/unicode.h"
#include "ringlet/models/tokenizer/wordpiece.h"

namespace ringlet::models {
namespace {

/// Removes the spaces that splitting put around punctuation and English contractions. The rules and
/// their order are those of Hugging Face's WordPiece decoder, including its odd one about "do not".
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kCleanup{{
    {" .", "."},
    {" ?", "?"},
    {" !", "!"},
    {" ,", ","},
    {" ' ", "'"},
    {" n't", "n't"},
    {" 'm", "'m"},
    {" do not", " don't"},
    {" 's", "'s"},
    {" 've", "'ve"},
    {" 're", "'re"},
}};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t i = text.find(from); i != std::string::npos; i = text.find(from, i)) {
    text.replace(i, from.size(), to);
    i += to.size();
  }
}

/// A piece with its space, unless it continues a word or is the first.
std::string join_wordpiece(const TokenizerModel& model, std::string_view piece, bool first) {
  const std::string_view prefix =
      dynamic_cast<const WordPiece&>(*model.pieces).options().continuing_subword_prefix;
  std::string token(piece);
  if (!first && piece.starts_with(prefix)) {
    token.erase(0, prefix.size());
  } else if (!first) {
    token.insert(0, 1, ' ');
  }
  if (model.decoder_cleanup) {
    for (const auto& [from, to] : kCleanup) replace_all(token, from, to);
  }
  return token;
}

/// Marks become spaces. The first piece loses its marks if words without a mark get one.
std::string join_marked(const Metaspace& marked, std::string_view piece, bool first) {
  const bool dropped = first && marked.prepend != Metaspace::Prepend::never;
  std::string token(piece);
  replace_all(token, marked.replacement, dropped ? "" : " ");
  return token;
}

}  // namespace

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  const auto* marked = std::get_if<Metaspace>(&model_->pre_tokenizer);
  const bool bytes = std::holds_alternative<ByteLevel>(model_->pre_tokenizer);
  std::string text;
  bool first = true;
  for (const std::int32_t id : ids) {
    const std::string_view piece = vocabulary().piece(id);
    const bool skipped =
        skip_special_tokens &&
        std::any_of(model_->added_tokens.begin(), model_->added_tokens.end(),
                    [id](const AddedToken& token) { return token.id == id && token.special; });
    if (skipped) continue;
    if (bytes)
      ByteLevel::decode(piece, text);
    else
      text += marked ? join_marked(*marked, piece, first) : join_wordpiece(*model_, piece, first);
    first = false;
  }
  return bytes ? unicode::valid(text) : text;
}

}  // namespace ringlet::models
