// Correlation of predictions with gold scores, as scipy.stats computes it.
#pragma once

#include <span>
#include <vector>

namespace ringlet::train {

bool has_nan(std::span<const double> values);

/// Ranks from 1; equal values share the mean of their positions.
std::vector<double> average_ranks(std::span<const double> values);

/// Pearson's r, in [-1, 1]. NaN for fewer than two values, and if all values of one side are equal.
/// Sides of different length are Error.
double pearson(std::span<const double> a, std::span<const double> b);
/// Pearson's r of the ranks; NaN if any value is NaN.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace ringlet::train
