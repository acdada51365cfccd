#include "ringlet/train/evaluators/search/hard_negatives.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "ringlet/core/ops/normalize.h"
#include "ringlet/train/data/draws.h"
#include "ringlet/train/data/lines.h"

namespace ringlet::train {
namespace {

/// Texts by the place of their first occurrence; white space at both ends makes no other text.
class DistinctTexts {
 public:
  explicit DistinctTexts(std::vector<std::string>& texts) : texts_(texts) {}

  std::size_t add(std::string_view text) {
    const auto [entry, is_new] = places_.emplace(strip(text), texts_.size());
    if (is_new) texts_.emplace_back(text);
    return entry->second;
  }

 private:
  std::vector<std::string>& texts_;
  std::unordered_map<std::string_view, std::size_t> places_;  // the caller's texts
};

Similarity of_units(Similarity similarity) {
  return similarity == Similarity::cosine ? Similarity::dot : similarity;
}

}  // namespace

MiningTexts mining_texts(const TextDataset& pairs, const std::vector<std::string>& corpus) {
  MiningTexts texts;
  DistinctTexts anchors(texts.anchors), documents(texts.corpus);
  for (const std::string& text : corpus) documents.add(text);
  std::vector<std::int64_t> pairs_of;  // each anchor
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    const RowTexts columns = pairs.texts(row);
    const std::size_t anchor = anchors.add(columns[0]);
    const auto positive = static_cast<std::int64_t>(documents.add(columns[1]));
    texts.positives.resize(texts.anchors.size());
    pairs_of.resize(texts.anchors.size());
    texts.most_positives = std::max(texts.most_positives, ++pairs_of[anchor]);
    if (std::ranges::find(texts.positives[anchor], positive) == texts.positives[anchor].end())
      texts.positives[anchor].push_back(positive);
  }
  return texts;
}

std::int64_t range_max(const MiningOptions& options, const MiningTexts& texts) {
  const bool filters = options.max_score || options.absolute_margin || options.relative_margin;
  const std::int64_t wanted = options.num_negatives * (filters ? 10 : 1);
  const std::int64_t last =
      options.range_max.value_or(options.range_min + wanted + texts.most_positives);
  if (last - options.range_min < options.num_negatives)
    fail_input("expected a range_max of at least ", options.range_min + options.num_negatives,
               ", range_min plus num_negatives, found ", last);
  return last;
}

HardNegativeMiner::HardNegativeMiner(const MiningTexts& texts, const Tensor& anchors,
                                     Similarity similarity, const MiningOptions& options,
                                     const comm::Group& group)
    : texts_(texts),
      anchors_(normalize(anchors).y.to(Device{})),
      similarity_(similarity),
      options_(options),
      range_max_(range_max(options, texts)),
      search_(anchors_.to(anchors.device()), range_max_ + texts.most_positives,
              of_units(similarity), group) {
  found_.resize(texts.anchors.size());
  for (std::size_t anchor = 0; anchor < texts.positives.size(); ++anchor) {
    const std::vector<std::int64_t>& rows = texts.positives[anchor];
    found_[anchor].positive_scores.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) positives_.push_back({rows[i], anchor, i});
  }
  std::ranges::sort(positives_, {}, &Positive::row);
}

void HardNegativeMiner::add(const Tensor& rows) {
  const Tensor units = normalize(rows).y.to(Device{});
  search_.add(units);
  const std::int64_t end = rows_ + rows.size(0);
  for (; next_positive_ < positives_.size() && positives_[next_positive_].row < end;
       ++next_positive_) {
    const auto& [row, anchor, index] = positives_[next_positive_];
    const Tensor query = anchors_[static_cast<std::int64_t>(anchor)];
    found_[anchor].positive_scores[index] = static_cast<float>(similarity_of(
        similarity_, query.data<float>(), units[row - rows_].data<float>(), units.size(1)));
  }
  rows_ = end;
}

std::vector<MinedAnchor> HardNegativeMiner::finish() {
  RINGLET_CHECK_EQ(rows_, std::ssize(texts_.corpus), "[hard negatives] rows of the corpus:");
  std::vector<std::vector<Hit>> hits = search_.finish();
  for (std::size_t anchor = 0; anchor < found_.size(); ++anchor)
    found_[anchor].negatives = sample(anchor, candidates(anchor, std::move(hits[anchor])));
  return std::move(found_);
}

/// The hits that no option leaves out.
std::vector<Hit> HardNegativeMiner::candidates(std::size_t anchor, std::vector<Hit> hits) {
  const std::vector<std::int64_t>& rows = texts_.positives[anchor];
  std::vector<float>& scores = found_[anchor].positive_scores;
  std::erase_if(hits, [&](Hit& hit) {
    if (similarity_ == Similarity::cosine) hit.score = std::clamp(hit.score, -1.F, 1.F);
    const auto positive = std::ranges::find(rows, hit.row);
    if (positive == rows.end()) return false;
    // The product's own rounding, so that a text with the positive's embedding has its score.
    scores[static_cast<std::size_t>(positive - rows.begin())] = hit.score;
    return true;
  });
  const float least = *std::ranges::min_element(scores);
  const auto leave_out = [&](const std::optional<double>& option, std::int64_t& count,
                             auto is_left_out) {
    if (!option) return;
    const auto value = static_cast<float>(*option);
    count += static_cast<std::int64_t>(
        std::erase_if(hits, [&](const Hit& hit) { return is_left_out(hit.score, value); }));
  };
  leave_out(options_.absolute_margin, skipped_.absolute_margin,
            [&](float score, float margin) { return score + margin > least; });
  leave_out(options_.relative_margin, skipped_.relative_margin,
            [&](float score, float margin) { return score > least - std::abs(least) * margin; });
  leave_out(options_.max_score, skipped_.max_score,
            [](float score, float most) { return score > most; });
  leave_out(options_.min_score, skipped_.min_score,
            [](float score, float least) { return score < least; });
  return hits;
}

std::vector<Hit> HardNegativeMiner::sample(std::size_t anchor, std::vector<Hit> hits) const {
  hits.resize(std::min(hits.size(), static_cast<std::size_t>(range_max_)));
  hits.erase(hits.begin(), hits.begin() + std::min(std::ssize(hits), options_.range_min));
  const auto count = std::min(hits.size(), static_cast<std::size_t>(options_.num_negatives));
  if (options_.sampling == NegativeSampling::random) {
    Draws draws(mix64(options_.seed, anchor));
    for (std::size_t i = 0; i < count; ++i)
      std::swap(hits[i], hits[i + draws.index(hits.size() - i)]);
  }
  hits.resize(count);
  std::ranges::sort(hits, is_better);
  return hits;
}

}  // namespace ringlet::train
