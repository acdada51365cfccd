// The rows of one split of a file that holds several.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ringlet/train/data/file_report.h"
#include "ringlet/train/data/read_options.h"

namespace ringlet::train {

/// The name of the column that a SplitFilter reads.
inline constexpr const char* kSplitColumn = "split";

/// Chooses the rows of a split by the column `split`. Without such a column it takes every row;
/// with one, a choice is needed.
class SplitFilter {
 public:
  /// InputError for a choice in a file without the column, unless it is shared.
  SplitFilter(std::string file, bool has_column, const SplitChoice& choice);

  bool has_column() const { return has_column_; }
  /// Whether to use the row with this value of the column; the row is counted.
  bool takes(std::optional<std::string_view> split);
  /// After the last row: what was chosen and left out. InputError that names the splits and their
  /// rows if there is none of the chosen split, or nothing was chosen.
  void finish(FileReport& report) const;

 private:
  std::string file_, wanted_;
  bool has_column_;
  std::map<std::string, std::size_t, std::less<>> rows_;  // of each split
};

}  // namespace ringlet::train
