// Figures of documents in the order of their scores, as scikit-learn computes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ringlet::train {

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

}  // namespace ringlet::train
