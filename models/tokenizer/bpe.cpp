#include "ringlet/models/tokenizer/bpe.h"

#include <queue>
#include <tuple>
#include <utility>

#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

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

std::shared_ptr<const PieceModel> Bpe::with(Vocabulary vocabulary) const {
  return std::make_shared<Bpe>(std::move(vocabulary), size_, merges_, unk_id_);
}

}  // namespace ringlet::models
