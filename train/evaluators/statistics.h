// Figures of scores, as scipy.stats and scikit-learn compute them: correlations, rankings, and
// classifiers by a threshold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ringlet::train {

/// Ranks from 1; equal values share the mean of their positions.
std::vector<double> average_ranks(std::span<const double> values);

/// Pearson's r, in [-1, 1]. NaN for fewer than two values, and if all values of one side are equal.
/// Sides of different length are Error.
double pearson(std::span<const double> a, std::span<const double> b);
/// Pearson's r of the ranks; NaN if any value is NaN.
double spearman(std::span<const double> a, std::span<const double> b);

/// Positions in descending order of score; equal scores keep their order. NaN comes last.
std::vector<std::size_t> descending_order(std::span<const double> scores);

/// Sum over the distinct scores, descending, of the gain in recall times the precision. 0 without
/// relevant documents. NaN if a score is NaN.
double average_precision(std::span<const double> scores, const std::vector<bool>& relevant);

/// The discounted cumulative gain of the first k over that of the best order. Equal scores share
/// the mean of their gains. 0 without relevant documents. NaN if a score is NaN.
double ndcg(std::span<const double> scores, const std::vector<bool>& relevant, std::int64_t k);

/// 1 / the rank of the first relevant document among the first k; 0 without one. `hits`: whether
/// the document of each rank is relevant.
double reciprocal_rank(const std::vector<bool>& hits, std::int64_t k);

/// The discounted gain of a relevant document at a rank from 1: 1 / log2(rank + 1).
double gain(std::int64_t rank);
/// The sum of the gains of ranks 1 to n.
double ideal_gain(std::int64_t n);

/// A pair is predicted as similar if its score reaches a threshold. Thresholds lie between unequal
/// scores: in the middle, or at the lowest score.
struct BinaryScores {
  double accuracy = 0, accuracy_threshold = 0;  // of the best accuracy; the highest such threshold
  double f1 = 0, f1_threshold = 0;              // of the best F1; 0 at 0 without similar pairs
  double precision = 0, recall = 0;             // at f1_threshold
  double ap = 0;                                // average precision
  double mcc = 0;                               // Matthews' correlation at f1_threshold
};
/// All NaN if a score is NaN. Error without rows.
BinaryScores binary_scores(std::span<const double> scores, const std::vector<bool>& similar);

}  // namespace ringlet::train
