#include "ringlet/train/cli/curves.h"

#include <algorithm>
#include <set>
#include <string>

#include "ringlet/core/io/file.h"
#include "ringlet/train/report/metrics.h"

namespace ringlet::cli {
namespace {

using train::Series;

Series& series_of(std::vector<Series>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Series& s) { return s.name == name; });
  if (found != all.end()) return *found;
  return all.emplace_back(Series{name, {}, {}});
}

bool is_loss(const std::string& name) {
  return name.starts_with("loss") || name.ends_with("_loss");
}

/// Noisy curves behind their running means.
std::vector<Series> smoothed(const std::vector<Series>& series) {
  constexpr std::size_t kPointsPerMean = 20;
  std::vector<Series> out;
  for (const Series& raw : series) {
    const std::size_t window = raw.x.size() / kPointsPerMean;
    if (window < 3) {
      out.push_back(raw);
      continue;
    }
    out.push_back({"", raw.x, raw.y, /*faint=*/true});
    out.push_back(train::moving_average(raw, window));
  }
  return out;
}

}  // namespace

void draw_curves(const std::filesystem::path& metrics, const std::filesystem::path& svg,
                 const std::vector<train::Level>& levels) {
  // The fields of a training line besides the losses.
  const std::set<std::string> other{"lr",           "grad_norm",      "pairs_per_s",
                                    "tokens_per_s", "data_wait_ms",   "page_faults",
                                    "mapped_bytes", "threads_started"};
  std::vector<Series> losses, scores;
  for (const train::MetricsLine& line : train::read_metrics(metrics))
    for (const auto& [name, value] : line.values) {
      if (other.contains(name) || !value) continue;
      Series& series = series_of(is_loss(name) ? losses : scores, name);
      series.x.push_back(static_cast<double>(line.step));
      series.y.push_back(*value);
    }
  // The mean over different losses says little beside each of them.
  if (losses.size() > 1 && losses[0].name == "loss" && losses[1].name.starts_with("loss_"))
    losses.erase(losses.begin());
  std::vector<train::LineChart> charts;
  charts.push_back({"Training loss", "step", "loss", smoothed(losses), levels});
  if (!scores.empty()) charts.push_back({"Evaluation", "step", "score", scores, {}});
  write_file(svg, train::draw_lines(charts));
}

}  // namespace ringlet::cli
