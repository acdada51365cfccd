#include "ringlet/train/cli/epoch_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace ringlet::cli {

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
