#include "ringlet/models/tokenizer/wordpiece.h"

#include <algorithm>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {

WordPiece::WordPiece(Vocabulary vocabulary, std::int32_t size, WordPieceOptions options,
                     std::string_view source)
    : PieceModel(std::move(vocabulary), size, Vocabulary::kMissing),
      options_(std::move(options)),
      prefix_hash_(Vocabulary::hash(Vocabulary::kHashStart, options_.continuing_subword_prefix)) {
  unk_id_ = vocabulary_.find(options_.unk_token);
  if (unk_id_ == Vocabulary::kMissing || unk_id_ >= size_) {
    fail_input(source, ": expected the unknown token ", quote(options_.unk_token),
               " in the vocabulary, it is not there");
  }
  if (options_.max_input_chars_per_word < 1) {
    fail_input(source, ": expected max_input_chars_per_word >= 1, got ",
               options_.max_input_chars_per_word);
  }
}

void WordPiece::append(std::string_view word, std::vector<std::int32_t>& ids) const {
  const auto limit = static_cast<std::size_t>(options_.max_input_chars_per_word);
  if (word.size() > limit && unicode::length(word) > limit) {
    ids.push_back(unk_id_);
    return;
  }
  const std::int32_t whole = vocabulary_.find(word);
  if (whole != Vocabulary::kMissing && whole < size_) {
    ids.push_back(whole);
    return;
  }
  const std::size_t count = ids.size();
  std::string_view head;
  while (!word.empty()) {
    std::size_t nbytes = 0;
    const std::int32_t id = longest_prefix(head, word, nbytes);
    if (id == Vocabulary::kMissing) {
      ids.resize(count);
      ids.push_back(unk_id_);
      return;
    }
    ids.push_back(id);
    word.remove_prefix(nbytes);
    head = options_.continuing_subword_prefix;
  }
}

std::shared_ptr<const PieceModel> WordPiece::with(Vocabulary vocabulary) const {
  return std::make_shared<WordPiece>(std::move(vocabulary), size_, options_);
}

/// The id of the longest piece that is `head` + the first `nbytes` > 0 of `rest`.
std::int32_t WordPiece::longest_prefix(std::string_view head, std::string_view rest,
                                       std::size_t& nbytes) const {
  std::int32_t best = Vocabulary::kMissing;
  if (vocabulary_.longest() < head.size()) return best;
  std::uint64_t hash = head.empty() ? Vocabulary::kHashStart : prefix_hash_;
  const std::size_t longest = std::min(rest.size(), vocabulary_.longest() - head.size());
  for (std::size_t end = 1; end <= longest; ++end) {
    hash = Vocabulary::hash(hash, rest.substr(end - 1, 1));
    const std::int32_t id = vocabulary_.find(hash, head, rest.substr(0, end));
    if (id == Vocabulary::kMissing || id >= size_) continue;
    best = id;
    nbytes = end;
  }
  return best;
}

}  // namespace ringlet::models
