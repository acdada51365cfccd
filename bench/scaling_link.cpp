#include <algorithm>
#include <cmath>

#include "scaling_model.h"

namespace ringlet::bench {
namespace {

// From NCCL's tuning (src/graph/tuning.cc): the factor of a ring's hops between nodes under load; a
// tree's rate relative to a ring's; the seconds of a tree's hop inside a node.
constexpr double kRingPlateau = 1.4;
constexpr double kTreeRate = 0.92;
constexpr double kTreeHop = 4e-6;

/// Log-log interpolation. Below the first point its value; above the last one proportional to x.
double interpolate(const std::vector<std::pair<double, double>>& points, double x) {
  if (x <= points.front().first) return points.front().second;
  if (x >= points.back().first) return points.back().second * x / points.back().first;
  const auto above = std::upper_bound(points.begin(), points.end(), std::pair(x, 0.0));
  const auto& [x1, y1] = *above;
  const auto& [x0, y0] = *(above - 1);
  const double weight = std::log(x / x0) / std::log(x1 / x0);
  return std::exp((1 - weight) * std::log(y0) + weight * std::log(y1));
}

}  // namespace

double Link::ring(int n, double bytes, int passes) const {
  const int crossings = nodes(n) - 1;
  const double hops = (n - 1 - crossings) * hop_s + crossings * kRingPlateau * node_hop_s;
  const double slower = crossings > 0 ? std::min(rate, node_rate) : rate;
  return base_s + passes * (hops + (n - 1.0) / n * bytes / slower);
}

// All devices exchange directly: few hops, but all data that leaves a node uses its adapters.
double Link::direct(int n, double bytes, int passes) const {
  const double sent = (n - 1.0) / n * bytes / rate;
  if (nodes(n) == 1) return base_s + passes * (hop_s + sent);
  const double leaving = node * (n - node) / static_cast<double>(n) * bytes / node_rate;
  return base_s + passes * (node_hop_s + std::max(sent, leaving));
}

double Link::tree_all_reduce(int n, double bytes) const {
  const double slower = nodes(n) > 1 ? std::min(rate, node_rate) : rate;
  const double hops = (std::min(n, node) - 1) * kTreeHop + std::log2(nodes(n)) * node_hop_s;
  return base_s + 2 * (hops + bytes / (kTreeRate * slower));
}

double Link::timed_all_reduce(int n, double bytes) const {
  return 2 * (n - 1.0) / n * interpolate(timed, bytes);
}

double Link::all_reduce(int n, double bytes) const {
  if (n == 1 || bytes == 0) return 0;
  if (!timed.empty()) return timed_all_reduce(n, bytes);
  const double ours = std::min(ring(n, bytes, 2), direct(n, bytes, 2));
  return tree ? std::min(ours, tree_all_reduce(n, bytes)) : ours;
}

double Link::reduce_scatter(int n, double bytes) const {
  if (n == 1 || bytes == 0) return 0;
  if (!timed.empty()) return timed_all_reduce(n, bytes) / 2;
  return std::min(ring(n, bytes, 1), direct(n, bytes, 1));
}

// An all-reduce of two devices: each sends as much as it has.
double Link::copy(double bytes) const {
  return timed.empty() ? direct(2, 2 * bytes, 1) : interpolate(timed, bytes);
}

}  // namespace ringlet::bench
