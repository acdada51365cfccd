#include "ringlet/models/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/tokenizer_model.h"
#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

/// Empty if `end` is before `begin`.
std::string_view between(std::string_view text, std::size_t begin, std::size_t end) {
  return text.substr(begin, std::max(begin, end) - begin);
}

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

/// Derived from the model once.
struct Tokenizer::Shared {
  AddedTokenMatcher verbatim;    // looked for in the text as it is
  AddedTokenMatcher normalized;  // looked for in the normalized text
};

/// Buffers of one call, used again from text to text.
struct Tokenizer::Scratch {
  std::string normalized;
  std::vector<std::int32_t> ids;
};

Tokenizer::Tokenizer(TokenizerModel model)
    : model_(std::make_shared<const TokenizerModel>(std::move(model))),
      shared_(std::make_shared<const Shared>(
          Shared{AddedTokenMatcher(model_->added_tokens, false, model_->normalizer),
                 AddedTokenMatcher(model_->added_tokens, true, model_->normalizer)})) {
  set_max_length(model_->max_length);
}

const SpecialTokens& Tokenizer::special() const { return model_->special; }
const Vocabulary& Tokenizer::vocabulary() const { return model_->pieces->vocabulary(); }
std::int64_t Tokenizer::vocab_size() const { return vocabulary().size(); }

void Tokenizer::set_max_length(std::int64_t max_length) {
  const std::int64_t least = model_->post_processor.added(false);
  RINGLET_CHECK(max_length == 0 || max_length >= std::max<std::int64_t>(least, 1),
                "[Tokenizer] expected max_length 0 (no limit) or at least ", least,
                " for the special tokens, got ", max_length);
  max_length_ = max_length;
}

/// Tokens that the texts may have beside the special ones.
std::size_t Tokenizer::room(bool pair) const {
  if (max_length_ == 0) return std::numeric_limits<std::size_t>::max();
  const std::int64_t added = model_->post_processor.added(pair);
  RINGLET_CHECK(max_length_ >= added, "[Tokenizer] max_length ", max_length_,
                " leaves no room for the ", added, " special tokens of a pair");
  return static_cast<std::size_t>(max_length_ - added);
}

/// The part of a text's ids that is kept.
std::span<const std::int32_t> Tokenizer::cut(std::span<const std::int32_t> ids,
                                             std::size_t length) const {
  if (length >= ids.size()) return ids;
  return model_->truncate_left ? ids.last(length) : ids.first(length);
}

/// `first`: the text begins with these words.
void Tokenizer::append_words(std::string_view text, bool first, Scratch& scratch) const {
  const OnWord on_word = [&](std::string_view word) { model_->pieces->append(word, scratch.ids); };
  std::visit([&](const auto& splitter) { splitter.for_words(text, first, on_word); },
             model_->pre_tokenizer);
}

/// A stretch of the text between added tokens.
void Tokenizer::append_segment(std::string_view text, bool first, Scratch& scratch) const {
  scratch.normalized.clear();
  normalize(model_->normalizer, text, scratch.normalized);
  const std::string_view normalized = scratch.normalized;
  std::size_t position = 0;
  AddedTokenMatcher::Match match;
  while (shared_->normalized.next(normalized, match)) {
    append_words(between(normalized, position, match.begin), first && position == 0, scratch);
    scratch.ids.push_back(match.id);
    position = match.end;
  }
  append_words(normalized.substr(position), first && position == 0, scratch);
}

void Tokenizer::append_tokens(std::string_view text, Scratch& scratch) const {
  std::size_t position = 0;
  AddedTokenMatcher::Match match;
  while (shared_->verbatim.next(text, match)) {
    append_segment(between(text, position, match.begin), position == 0, scratch);
    scratch.ids.push_back(match.id);
    position = match.end;
  }
  append_segment(text.substr(position), position == 0, scratch);
}

Encoding Tokenizer::encode(std::string_view text) const {
  Scratch scratch;
  append_tokens(text, scratch);
  Encoding encoding;
  model_->post_processor.append(cut(scratch.ids, room(false)), encoding);
  return encoding;
}

Encoding Tokenizer::encode(std::string_view text, std::string_view pair) const {
  Scratch scratch;
  append_tokens(text, scratch);
  std::size_t first = scratch.ids.size();
  append_tokens(pair, scratch);
  const std::span<const std::int32_t> ids(scratch.ids);
  const auto first_ids = ids.first(first);
  const auto second_ids = ids.subspan(first);
  std::size_t second = second_ids.size();
  const std::size_t limit = room(true);
  if (first + second > limit) {
    // The shorter text keeps what fits beside an equal share; at a tie the second gets the odd one.
    const bool swapped = first > second;
    const std::size_t shorter = std::min({first, second, limit / 2});
    const std::size_t longer = limit - shorter;
    first = swapped ? longer : shorter;
    second = swapped ? shorter : longer;
  }
  Encoding encoding;
  model_->post_processor.append(cut(first_ids, first), cut(second_ids, second), encoding);
  return encoding;
}

void Tokenizer::append(std::string_view text, std::vector<std::int32_t>& ids) const {
  Scratch scratch;
  append_tokens(text, scratch);
  model_->post_processor.append(cut(scratch.ids, room(false)), ids);
}

PackedEncoding Tokenizer::encode_batch(std::span<const std::string> texts) const {
  PackedEncoding batch;
  batch.cu_seqlens.reserve(texts.size() + 1);
  batch.cu_seqlens.push_back(0);
  Scratch scratch;
  const std::size_t limit = room(false);
  for (const std::string& text : texts) {
    scratch.ids.clear();
    append_tokens(text, scratch);
    model_->post_processor.append(cut(scratch.ids, limit), batch.ids);
    RINGLET_CHECK(batch.ids.size() <= std::numeric_limits<std::int32_t>::max(),
                  "[Tokenizer] a batch has more than 2^31 - 1 tokens");
    batch.cu_seqlens.push_back(static_cast<std::int32_t>(batch.ids.size()));
  }
  return batch;
}

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
