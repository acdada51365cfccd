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

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/models/losses/loss.h"
#include "ringlet/models/transformer.h"
#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

class Replicas;

struct DataParallelOptions {
  /// Counts the seconds of seconds_exchanging(), which takes points in the first device's time.
  bool timed = false;
  /// Divides the summed value and gradients by the devices: for a loss that is the mean of its
  /// device's rows. This includes leaves outside the module. Off, losses divide by the rows of the
  /// global batch.
  bool average = false;
  /// Gets a line where one of the devices and the first do not read each other's memory.
  std::function<void(const std::string&)> on_note = {};
};

/// While it lives, the loss deals the rows of its batches out to the devices, near-equal in tokens,
/// as a Loader deals them to ranks. Its value is the sum of theirs: no embedding leaves its device.
/// Backward adds the replicas' gradients to those of the first device, in the order of the devices;
/// a device adds zero for a parameter that its part does not use. requires_grad is the module's
/// own. Parameters are sent to the replicas before the next forward; devices of one memory share
/// them. A backward that throws leaves no gradients. Without gradients the transformer below deals
/// its rows out, so that encode and evaluators use all devices, too, with the bits of one.
///
/// The first device is the module's own; every class in it must know blank_copy. The module must
/// outlive this object.
class DataParallel {
 public:
  using Options = DataParallelOptions;
  DataParallel(models::Loss& loss, std::vector<Device> devices, Options options = {});
  /// Any other module: the same by sum().
  DataParallel(nn::Module& module, std::vector<Device> devices, Options options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Calls part(replica, d) for every device d at once, each on a thread of its own; the replica of
  /// device 0 is the module itself. The value is the sum of theirs, () each on its device, and its
  /// backward that of all:
  ///
  ///   const Variable loss = parallel.sum([&](nn::Module& replica, std::size_t d) {
  ///     return autograd::cross_entropy(static_cast<Net&>(replica)(images[d]), labels[d], rows);
  ///   });
  using Part = std::function<Variable(nn::Module& replica, std::size_t d)>;
  Variable sum(const Part& part);

  /// Gradients stay on their devices until the next backward without it.
  [[nodiscard]] NoSync no_sync() const { return NoSync(paused()); }
  /// How many no_sync() are alive.
  const std::shared_ptr<int>& paused() const;
  /// In adding up gradients and sending parameters, so far, by the first device's clock, which
  /// computes nothing meanwhile: its waits for slower devices count. Waits for the device; 0 unless
  /// Options::timed.
  double seconds_exchanging() const;

 private:
  std::shared_ptr<Replicas> replicas_;
  std::shared_ptr<models::LossRunner> loss_;
  std::vector<std::shared_ptr<models::TransformerRunner>> transformers_;
};

}  // namespace ringlet::train
