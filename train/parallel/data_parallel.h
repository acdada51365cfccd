// DP: one process, a thread and a replica of the module per device.
//
//   DataParallel parallel(net, {Device::parse("cpu:0"), Device::parse("cpu:1")});
//   const Variable loss = parallel.sum([&](nn::Module& replica, std::size_t d) {
//     return autograd::cross_entropy(static_cast<Net&>(replica)(images[d]), labels[d], rows);
//   });
//   loss.backward();   // on all devices
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/nn/module.h"
#include "ringlet/train/parallel/no_sync.h"

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

/// Runs a function of the module on several devices. Backward adds the replicas' gradients to those
/// of the first device, in the order of the devices. A device adds zero for a parameter that its
/// part does not use. requires_grad is the module's own. Parameters are sent to the replicas before
/// the next forward; devices of one memory share them. A backward that throws leaves no gradients.
///
/// The first device is the module's own; every class in it must know blank_copy. The module must
/// outlive this object.
class DataParallel {
 public:
  using Options = DataParallelOptions;
  DataParallel(nn::Module& module, std::vector<Device> devices, const Options& options = {});
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Calls part(replica, d) for every device d concurrently, each on its thread. The replica of
  /// device 0 is the module itself. Each value is (), on its device. Returns their sum; its
  /// backward runs on all devices.
  using Part = std::function<Variable(nn::Module& replica, std::size_t d)>;
  Variable sum(const Part& part);

  /// Gradients stay on their devices until the next backward without it.
  [[nodiscard]] NoSync no_sync() const { return NoSync(module_); }
  /// In adding up gradients and sending parameters, so far, by the first device's clock, which
  /// computes nothing meanwhile: its waits for slower devices count. Waits for the device; 0 unless
  /// Options::timed.
  double seconds_exchanging() const;

 protected:
  const std::shared_ptr<Replicas>& replicas() const { return replicas_; }

 private:
  nn::Module& module_;
  std::shared_ptr<Replicas> replicas_;
};

}  // namespace ringlet::train
