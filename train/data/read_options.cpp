#include "ringlet/train/data/read_options.h"

#include <fmt/format.h>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::train {
namespace {

constexpr std::size_t kLongestList = 300;

/// "1 row", "2 rows"
std::string counted(std::size_t count, const std::string& unit) {
  return fmt::format("{} {}{}", fmt::group_digits(count), unit, count == 1 ? "" : "s");
}

std::string list(const char* title, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ", ") + (name.empty() ? quote(name) : name);
  return text.empty() ? text : title + shown(text, kLongestList);
}

}  // namespace

std::string describe(const FileReport& report) {
  std::string text = report.name + ": " + counted(report.count, report.unit);
  if (!report.split.empty()) text += " of split " + quote(report.split);
  for (const auto& [count, why] : report.skipped)
    if (count > 0) text += fmt::format(", {} skipped ({})", fmt::group_digits(count), why);
  text += list("; columns ", report.columns) + list("; without use: ", report.unused);
  if (!report.scale.empty()) text += "; score scale " + report.scale;
  if (report.empty_texts > 0) text += "; " + counted(report.empty_texts, "empty text");
  if (!report.note.empty()) text += "; " + report.note;
  return text;
}

}  // namespace ringlet::train
