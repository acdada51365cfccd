#include "ringlet/train/data/split_filter.h"

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/train/data/text.h"

namespace ringlet::train {

SplitFilter::SplitFilter(std::string file, bool has_column, const SplitChoice& choice)
    : file_(std::move(file)), wanted_(choice.name), has_column_(has_column) {
  if (!has_column_ && !wanted_.empty() && !choice.shared)
    fail_input(file_, ": no column 'split' for --split ", shown(wanted_));
}

bool SplitFilter::takes(std::optional<std::string_view> split) {
  if (!has_column_) return true;
  const std::string_view name = strip(split.value_or(""));
  auto found = rows_.find(name);
  if (found == rows_.end()) found = rows_.emplace(name, 0).first;
  ++found->second;
  return !wanted_.empty() && name == wanted_;
}

void SplitFilter::finish(FileReport& report) const {
  if (!has_column_) return;
  std::size_t others = 0;
  std::string all;
  for (const auto& [name, count] : rows_) {
    all += str(all.empty() ? "" : ", ", quote(name), " (", count, count == 1 ? " row)" : " rows)");
    if (name != wanted_) others += count;
  }
  if (wanted_.empty() || !rows_.contains(wanted_))
    fail_input(file_, ": expected --split with one of its splits ", shown(all, 300),
               wanted_.empty() ? "" : ", found " + quote(wanted_));
  report.split = wanted_;
  report.skipped.emplace_back(others, "other splits");
}

}  // namespace ringlet::train
