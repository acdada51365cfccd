#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ringlet/core/io/file.h"
#include "ringlet/train/argument_table.h"
#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/train/cli/train.h"
#include "ringlet/train/report/metrics.h"
#include "ringlet/train/report/model_card.h"
#include "ringlet/train/report/plot.h"

namespace ringlet::cli {
namespace {

using train::Series;

/// Guessing among n classes costs ln n.
std::vector<train::Level> guessing_levels(const TrainingData& data) {
  for (const Source& source : data.sources)
    if (source.loss->traits & kClassifier)
      return {{fmt::format("guessing (ln {})", source.dataset->num_labels()),
               std::log(source.dataset->num_labels())}};
  return {};
}

Series& series_of(std::vector<Series>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &Series::name);
  return found != all.end() ? *found : all.emplace_back(Series{name, {}, {}});
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

void draw_curves(const std::filesystem::path& output, const TrainingData& data) {
  std::vector<Series> losses, scores;
  for (const train::MetricsLine& line : train::read_metrics(output / train::kMetrics)) {
    const auto is_lr = [](const auto& value) { return value.first == "lr"; };
    const bool of_training = std::ranges::any_of(line.values, is_lr);
    for (const auto& [name, value] : line.values) {
      const bool loss = name.starts_with("loss") || name.ends_with("_loss");
      if (!value || (of_training && !loss)) continue;
      Series& series = series_of(loss ? losses : scores, name);
      series.x.push_back(static_cast<double>(line.step));
      series.y.push_back(*value);
    }
  }
  // The mean over different losses says little beside each of them.
  if (losses.size() > 1 && losses[0].name == "loss" && losses[1].name.starts_with("loss_"))
    losses.erase(losses.begin());
  std::vector<train::LineChart> charts;
  charts.push_back({"Training loss", "step", "loss", smoothed(losses), guessing_levels(data)});
  if (!scores.empty()) charts.push_back({"Evaluation", "step", "score", scores, {}});
  write_file(output / "curves.svg", train::draw_lines(charts));
}

std::string card_text(const TrainPlan& plan, const models::SentenceEncoder& encoder,
                      const Losses& losses, const train::TrainingArguments& arguments,
                      const train::TrainingResult& result) {
  train::ModelCard card;
  if (!from_scratch(plan.options)) card.base_model = plan.options.model.model;
  const std::vector<std::string> trained = train::short_names(plan.data.datasets());
  for (std::size_t i = 0; i < trained.size(); ++i)
    card.train_datasets.push_back({plan.data.sources[i].dataset, trained[i], losses.kinds[i]});
  for (const EvaluationData& eval : plan.data.eval) {
    if (eval.evaluator) card.evaluators.push_back({eval.evaluator->kind(), eval.name});
    if (!eval.dataset) continue;
    card.eval_datasets.push_back(
        {eval.dataset, eval.name, eval.source ? losses.kinds[*eval.source] : ""});
  }
  card.metrics = arguments.output_dir / train::kMetrics;
  if (arguments.load_best_model_at_end && result.best) card.step = result.best->step;
  card.arguments = argument_texts(arguments);
  card.changed_arguments = changed_arguments(arguments);
  return train::model_card(card, encoder);
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
