// A row of the throughput table.
#pragma once

#include <string>

#include "ringlet/train/parallel/strategy_name.h"

namespace ringlet::bench {

/// A row of the table, before it is measured.
struct Plan {
  std::string name;
  train::Strategy strategy = train::Strategy::none;
  int devices = 1;
  bool together = true;  // false: ranks train concurrently and exchange nothing
  int stages = 1;        // of a pipeline: as many as devices, or one
  int slices = 1;        // of each layer: the same
  /// Whether all ranks train the same rows.
  bool same_rows() const { return stages * slices > 1; }

  /// Processes of the row; on GPUs threads, except under a launcher. All devices of dp are in one.
  int ranks() const { return strategy == train::Strategy::dp ? 1 : devices; }
};

}  // namespace ringlet::bench
