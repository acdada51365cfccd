// DP: one process, a thread and a replica of the model per device.
//
//   DataParallel parallel(loss, {Device::parse("cpu:0"), Device::parse("cpu:1")});
//   AdamW optimizer(loss);
//   for (const models::PackedBatch& batch : loader) {   // whole global batches
//     loss(batch).backward();                           // runs on all devices
//     optimizer.step();
//     optimizer.zero_grad();
//   }
#pragma once

#include <memory>
#include <vector>

#include "ringlet/models/losses/loss.h"
#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

/// While it lives, the loss deals the rows of its batches out to the devices, near-equal in tokens,
/// as a Loader deals them to ranks. Its value is the sum of theirs: no embedding leaves its device.
/// Backward adds the replicas' gradients to those of the first device, in the order of the devices.
/// Parameters go to the replicas before the next forward; devices of one memory share them.
/// A backward that throws leaves no gradients behind.
///
/// The first device is the loss's own; every class in the loss must know blank_copy. Without
/// gradients, the first device runs alone. The loss must outlive this object.
class DataParallel {
 public:
  DataParallel(models::Loss& loss, std::vector<Device> devices);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Gradients stay on their devices until the next backward without it.
  [[nodiscard]] NoSync no_sync() const { return NoSync(paused()); }
  /// How many no_sync() are alive.
  const std::shared_ptr<int>& paused() const;

 private:
  class Replicas;
  std::shared_ptr<Replicas> replicas_;
};

}  // namespace ringlet::train
