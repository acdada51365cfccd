// The hook by which a loss or a transformer runs its batches elsewhere.
#pragma once

#include "ringlet/autograd/variable.h"
#include "ringlet/models/batch.h"

namespace ringlet::models {

/// Runs a module's batches in its place, for instance split over copies on several devices.
class BatchRunner {
 public:
  virtual ~BatchRunner() = default;
  virtual Variable run(const PackedBatch& batch) = 0;
};

}  // namespace ringlet::models
