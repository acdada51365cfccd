#include "ringlet/models/tokenizer/unigram.h"

#include <algorithm>
#include <utility>

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

}  // namespace

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

std::shared_ptr<const PieceModel> Unigram::with(Vocabulary vocabulary) const {
  return std::make_shared<Unigram>(std::move(vocabulary), scores_, unk_id_);
}

}  // namespace ringlet::models
