#include "ringlet/models/tokenizer/piece_model.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

constexpr double kUnknownPenalty = 10;

/// The best split of the word up to a position.
struct Node {
  double score = 0;
  std::size_t last = std::string_view::npos;  // where its last piece begins; npos: not reached
  std::int32_t id = 0;                        // of the last piece
};

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

/// A piece of the word and its neighbours; -1: none.
struct Symbol {
  std::int32_t id;
  std::int32_t previous;
  std::int32_t next;
};

constexpr std::int32_t kMergedAway = -1;

struct Candidate {
  std::int32_t rank;
  std::int32_t position;

  bool operator>(const Candidate& other) const {
    return std::tie(rank, position) > std::tie(other.rank, other.position);
  }
};

}  // namespace

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

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, std::int32_t unk_id)
    : PieceModel(std::move(vocabulary), static_cast<std::int32_t>(scores.size()), unk_id),
      scores_(std::move(scores)),
      unk_score_(*std::ranges::min_element(scores_) - kUnknownPenalty) {}

void Unigram::append(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::vector<Node> nodes(word.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, std::int32_t id, double score) {
    const double sum = nodes[begin].score + score;
    if (nodes[end].last == std::string_view::npos || sum > nodes[end].score)
      nodes[end] = {sum, begin, id};
  };
  for (std::size_t begin = 0, after = 0; begin < word.size(); begin = after) {
    unicode::next(word, after);
    bool alone = false;
    std::uint64_t hash = Vocabulary::kHashStart;
    const std::size_t limit = std::min(word.size(), begin + vocabulary_.longest());
    for (std::size_t end = begin; end < limit;) {
      const std::size_t start = end;
      unicode::next(word, end);
      hash = Vocabulary::hash(hash, word.substr(start, end - start));
      const std::int32_t id = vocabulary_.find(hash, {}, word.substr(begin, end - begin));
      if (id == Vocabulary::kMissing || id >= size_) continue;
      offer(begin, end, id, scores_[static_cast<std::size_t>(id)]);
      alone |= end == after;
    }
    if (!alone) offer(begin, after, unk_id_, unk_score_);
  }
  const auto count = static_cast<std::ptrdiff_t>(ids.size());
  bool unknown = false;
  for (std::size_t end = word.size(); end > 0; end = nodes[end].last) {
    const std::int32_t id = nodes[end].id;
    if (!(unknown && id == unk_id_)) ids.push_back(id);
    unknown = id == unk_id_;
  }
  std::reverse(ids.begin() + count, ids.end());
}

Bpe::Bpe(Vocabulary vocabulary, std::int32_t size, std::vector<Merge> merges, std::int32_t unk_id)
    : PieceModel(std::move(vocabulary), size, unk_id), merges_(std::move(merges)) {
  ranks_.reserve(merges_.size());
  for (std::size_t rank = 0; rank < merges_.size(); ++rank)
    ranks_[pair_key(merges_[rank].left, merges_[rank].right)] = static_cast<std::int32_t>(rank);
}

std::int32_t Bpe::rank(std::int32_t left, std::int32_t right) const {
  const auto found = ranks_.find(pair_key(left, right));
  return found == ranks_.end() ? -1 : found->second;
}

std::vector<std::int32_t> Bpe::characters(std::string_view word) const {
  std::vector<std::int32_t> ids;
  for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    unicode::next(word, end);
    const std::int32_t id = vocabulary_.find(word.substr(begin, end - begin));
    const bool known = id != Vocabulary::kMissing && id < size_;
    if (known || unk_id_ != Vocabulary::kMissing) ids.push_back(known ? id : unk_id_);
  }
  return ids;
}

void Bpe::append(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::vector<Symbol> symbols;
  for (const std::int32_t id : characters(word)) {
    const auto i = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({id, i - 1, i + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  const auto at = [&](std::int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::int32_t i) {
    if (i < 0 || at(i).next < 0) return;
    const std::int32_t found = rank(at(i).id, at(at(i).next).id);
    if (found >= 0) queue.push({found, i});
  };
  for (std::int32_t i = 0; at(i).next >= 0; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = at(best.position);
    // A pair may have merged with others since it was queued.
    if (left.id == kMergedAway || left.next < 0) continue;
    Symbol& right = at(left.next);
    if (rank(left.id, right.id) != best.rank) continue;
    left.id = merges_[static_cast<std::size_t>(best.rank)].merged;
    right.id = kMergedAway;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = best.position;
    offer(left.previous);
    offer(best.position);
  }
  for (std::int32_t i = 0; i >= 0; i = at(i).next) ids.push_back(at(i).id);
}

}  // namespace ringlet::models
