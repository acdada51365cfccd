#include "ringlet/train/evaluators/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean_of(std::span<const double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return sum / static_cast<double>(values.size());
}

bool varies(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [&](double x) { return x != values[0]; });
}

// The deviations from the mean, as a vector of length 1. They are divided by the largest one before
// they are squared, so that squares neither overflow nor vanish.
std::vector<double> unit_deviations(std::span<const double> values) {
  const double mean = mean_of(values);
  std::vector<double> deviations;
  double largest = 0, squares = 0;
  for (const double value : values) {
    deviations.push_back(value - mean);
    largest = std::max(largest, std::abs(deviations.back()));
  }
  for (const double d : deviations) squares += (d / largest) * (d / largest);
  for (double& d : deviations) d /= largest * std::sqrt(squares);
  return deviations;
}

}  // namespace

bool has_nan(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
}

std::vector<double> average_ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + 1 + end) / 2;
    for (; begin < end; ++begin) ranks[order[begin]] = rank;
  }
  return ranks;
}

double pearson(std::span<const double> a, std::span<const double> b) {
  RINGLET_CHECK_EQ(a.size(), b.size(), "[pearson] both sides need one value per row");
  if (!varies(a) || !varies(b)) return kNaN;
  const std::vector<double> x = unit_deviations(a), y = unit_deviations(b);
  return std::clamp(std::inner_product(x.begin(), x.end(), y.begin(), 0.0), -1.0, 1.0);
}

double spearman(std::span<const double> a, std::span<const double> b) {
  RINGLET_CHECK_EQ(a.size(), b.size(), "[spearman] both sides need one value per row");
  if (has_nan(a) || has_nan(b)) return kNaN;
  return pearson(average_ranks(a), average_ranks(b));
}

}  // namespace ringlet::train
