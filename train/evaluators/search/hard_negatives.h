// Hard negatives: texts of a corpus that are similar to an anchor but not among its positives.
// Options, rules and defaults: mine_hard_negatives of Sentence Transformers.
//
//   const MiningTexts texts = mining_texts(pairs, corpus);
//   HardNegativeMiner miner(texts, anchor_embeddings, Similarity::cosine, {.num_negatives = 5});
//   for (each piece of texts.corpus) miner.add(embeddings);
//   for (const MinedAnchor& found : miner.finish()) …
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/train/data/dataset.h"
#include "ringlet/train/evaluators/search/similarity.h"

namespace ringlet::train {

/// top: the most similar candidates; random: any of them.
enum class NegativeSampling { top, random };
inline constexpr EnumNames<NegativeSampling, 2> kNegativeSamplings{"sampling strategy",
                                                                   {"top", "random"}};

/// A candidate is one of the texts most similar to an anchor. Margins are distances from the least
/// similar positive of the anchor.
struct MiningOptions {
  std::int64_t num_negatives = 3;
  std::int64_t range_min = 0;                  // most similar candidates left out
  std::optional<std::int64_t> range_max = {};  // candidates; unset: see range_max()
  std::optional<double> max_score = {}, min_score = {};
  std::optional<double> absolute_margin = {};
  std::optional<double> relative_margin = {};  // a share of the positive's |score|
  NegativeSampling sampling = NegativeSampling::top;
  std::uint64_t seed = 42;
};

/// Texts without repeats, in the order of their first occurrence.
struct MiningTexts {
  std::vector<std::string> anchors;
  std::vector<std::string> corpus;                   // the positives last
  std::vector<std::vector<std::int64_t>> positives;  // of each anchor: rows of the corpus
  std::int64_t most_positives = 0;                   // pairs of one anchor, repeated ones counted
};
/// The first two columns of the pairs are an anchor and a positive.
MiningTexts mining_texts(const TextDataset& pairs, const std::vector<std::string>& corpus = {});

/// The candidates of an anchor. By default num_negatives behind range_min and the most positives
/// that an anchor has, and ten times as many with a margin or max_score. InputError if they are
/// fewer than num_negatives.
std::int64_t range_max(const MiningOptions& options, const MiningTexts& texts);

struct MinedAnchor {
  std::vector<float> positive_scores;  // of MiningTexts::positives
  std::vector<Hit> negatives;          // the most similar first; at most num_negatives
};

/// Candidates that each option left out.
struct SkippedCandidates {
  std::int64_t absolute_margin = 0, relative_margin = 0, max_score = 0, min_score = 0;
};

/// Compares unit vectors. Memory: the anchors, their candidates and a block of scores. All ranks of
/// a group call it together, with all anchors and all rows; see TopKSearch.
class HardNegativeMiner {
 public:
  /// `anchors` (anchors of `texts`, H) f32, on the device that multiplies. `texts` must outlive it.
  HardNegativeMiner(const MiningTexts& texts, const Tensor& anchors, Similarity similarity,
                    const MiningOptions& options, const comm::Group& group = {});

  /// The next rows of the corpus, (n, H) f32.
  void add(const Tensor& rows);
  /// The negatives of each anchor, after all rows.
  std::vector<MinedAnchor> finish();
  const SkippedCandidates& skipped() const { return skipped_; }

 private:
  std::vector<Hit> candidates(std::size_t anchor, std::vector<Hit> hits);
  std::vector<Hit> sample(std::size_t anchor, std::vector<Hit> hits) const;

  /// A positive, in the order of the corpus.
  struct Positive {
    std::int64_t row;
    std::size_t anchor, index;
  };

  const MiningTexts& texts_;
  Tensor anchors_;  // (anchors, H), unit vectors on a CPU
  Similarity similarity_;
  MiningOptions options_;
  std::int64_t range_max_;
  TopKSearch search_;
  std::int64_t rows_ = 0;  // added
  std::vector<Positive> positives_;
  std::size_t next_positive_ = 0;
  std::vector<MinedAnchor> found_;
  SkippedCandidates skipped_;
};

}  // namespace ringlet::train
