#include <fmt/format.h>

#include <cctype>

#include "ringlet/train/training_job.h"

namespace ringlet::train {
namespace {

/// "Validation Loss" of "eval_loss", "Accuracy" of "eval_accuracy".
std::string heading(std::string name) {
  if (name == "eval_loss") return "Validation Loss";
  if (name.starts_with("eval_")) name.erase(0, 5);
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

}  // namespace

std::string epoch_table(const TrainingResult& result) {
  std::string text;
  for (const TrainingResult::Epoch& epoch : result.epochs) {
    std::string first = "Epoch  Training Loss", line;
    line = fmt::format("{:<5}  {:<13.6f}", epoch.epoch, epoch.loss);
    for (const auto& [name, value] : epoch.metrics) {
      const std::string column = heading(name);
      first += "  " + column;
      line += fmt::format("  {:<{}.6f}", value, column.size());
    }
    text += text.empty() ? first + '\n' + line + '\n' : line + '\n';
  }
  return text;
}

}  // namespace ringlet::train
