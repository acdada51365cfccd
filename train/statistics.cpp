#include "ringlet/train/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ringlet/core/error.h"

namespace ringlet::train {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean_of(std::span<const double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return sum / static_cast<double>(values.size());
}

bool has_nan(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
}

}  // namespace

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
  if (a.size() < 2) return kNaN;
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] - mean_a, y = b[i] - mean_b;
    aa += x * x;
    bb += y * y;
    ab += x * y;
  }
  if (aa == 0 || bb == 0) return kNaN;
  return std::clamp(ab / (std::sqrt(aa) * std::sqrt(bb)), -1.0, 1.0);
}

double spearman(std::span<const double> a, std::span<const double> b) {
  RINGLET_CHECK_EQ(a.size(), b.size(), "[spearman] both sides need one value per row");
  if (has_nan(a) || has_nan(b)) return kNaN;
  return pearson(average_ranks(a), average_ranks(b));
}

}  // namespace ringlet::train
