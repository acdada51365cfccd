// Figures of a classifier of pairs by a threshold on their similarity.
#pragma once

#include <span>
#include <vector>

namespace ringlet::train {

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
