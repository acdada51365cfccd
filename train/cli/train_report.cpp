#include "ringlet/train/cli/train_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

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

std::string epoch_plan(const train::TrainingTask& task) {
  const std::vector<std::string> names = task.dataset_names();
  const std::vector<train::EpochRows> rows = task.epoch_rows(0);
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i)
    text += fmt::format("{}{} of {}{} of {}", i == 0 ? "" : ", ", rows[i].used, rows[i].all,
                        i == 0 ? " rows" : "", names[i]);
  return fmt::format("an epoch takes {} steps: {}", task.steps_per_epoch(0), text);
}

std::string epoch_end(const train::TrainingTask& task, std::size_t epoch) {
  const std::vector<std::string> names = task.dataset_names();
  const std::vector<train::EpochRows> rows = task.epoch_rows(epoch - 1);
  const auto is_whole = [](const train::EpochRows& one) { return one.used == one.all; };
  const auto ender = std::find_if(rows.begin(), rows.end(), is_whole);
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!is_whole(rows[i]))
      text +=
          fmt::format("{}{:.1f} % of {}'s {} rows", text.empty() ? "" : ", ",
                      100.0 * static_cast<double>(rows[i].used) / static_cast<double>(rows[i].all),
                      names[i], rows[i].all);
  if (text.empty()) return "";
  // A sampler may leave rows of every data set over.
  const std::string ended =
      ender == rows.end() ? ""
                          : " ended with " + names[static_cast<std::size_t>(ender - rows.begin())];
  return fmt::format("epoch {}{}: {} were used", epoch, ended, text);
}

}  // namespace ringlet::cli
