// The columns of a data set that a reader takes.
#pragma once

#include <string>
#include <vector>

#include "ringlet/train/data/dataset.h"
#include "ringlet/train/data/read_options.h"
#include "ringlet/train/data/rows.h"

namespace ringlet::train {

struct ColumnPlan {
  std::vector<std::string> texts;
  Target target = Target::none;
  std::string target_column = {};
  double scale = 1;          // of scores
  double min_score = -1;     // a share of the scale
  const char* assumed = "";  // why the scale is 5 without ReadOptions; empty where it is not
  int num_labels = 0;        // 0: any

  /// The texts' and the target's.
  std::vector<std::string> columns() const;
};

/// By the names of the columns, or the values of a first row without names. InputError for other
/// columns, and for numbered ones with a gap.
ColumnPlan plan_columns(RowReader& rows, const ReadOptions& options);

/// InputError for a column from number `first` on, the key of a later JSON object, that would have
/// been used in the first one.
void check_late_columns(const RowReader& rows, std::size_t first);

}  // namespace ringlet::train
