// A module on several devices of one process: its copies, and what goes between them.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ringlet/nn/pack.h"
#include "ringlet/train/parallel/data_parallel.h"
#include "ringlet/train/parallel/gradient_sum.h"
#include "ringlet/train/parallel/workers.h"

namespace ringlet::comm {
class DeviceClock;
}

namespace ringlet::train {

/// Copies of a module on the devices after the first, which is the module's own. Their parameters
/// follow the module's; backward adds their gradients to its.
class Replicas : public std::enable_shared_from_this<Replicas> {
 public:
  Replicas(nn::Module& module, std::vector<Device> devices, const DataParallelOptions& options);

  const std::vector<Device>& devices() const { return devices_; }
  /// The module itself, then its copies.
  const std::vector<nn::Module*>& modules() const { return modules_; }

  /// Calls part(d) for each device on a thread of its own, with this thread's generator, after the
  /// parameters and buffers have gone there; whatever gradients are asked for here are asked for
  /// there. Throws what the first one threw.
  void run(const std::function<void(std::size_t)>& part);
  /// Whether a run or a backward is in progress: a part must not start another.
  bool running() const { return running_; }
  /// The sum of part(d), () each, over the devices, and a backward that runs on all of them.
  Variable sum(const std::function<Variable(std::size_t)>& part);
  /// `outside`: leaves outside the module's parameters, to average their gradients.
  void backward(const std::vector<Variable>& values, const std::vector<Variable>& outside,
                const Tensor& grad);

  /// Called when part or backward throws, on its device's thread. Other devices may wait for it.
  void set_on_failure(std::function<void(const std::string& cause)> on_failure) {
    on_failure_ = std::move(on_failure);
  }
  /// Total time of adding gradients and sending parameters, by the first device's clock; waits for
  /// that device.
  double seconds_exchanging() const;

 private:
  struct Replica {
    std::shared_ptr<nn::Module> module;
    std::vector<nn::Parameter> parameters;                   // in the order of the arena
    std::vector<std::pair<nn::Buffer, nn::Buffer>> buffers;  // the first device's, and its own
    Tensor data;                                             // (arena) on its device
    Tensor grad;                                             // (arena) on its device
  };
  struct Range {
    std::int64_t begin, end;  // elements of the arena
  };
  /// A parameter on the first device, and its gradient there.
  struct Own : GradientSum {
    nn::Parameter parameter;
  };
  void stash_sums();
  void take_average(Tensor sum) const;
  void finish(GradientSum& sum) const;
  void add_replica(Device device);
  void on_devices(const std::function<void(std::size_t)>& job);
  void send_parameters();
  void send_buffers();
  void send_settings();
  std::vector<Variable> leaves(const std::vector<std::vector<Variable>>& used) const;
  std::vector<Variable> outside(const std::vector<std::vector<Variable>>& used) const;
  void zero_missing();
  std::vector<Range> reached() const;
  void reduce();
  void add_replicas();

  nn::Module& module_;
  std::vector<Device> devices_;
  bool average_;
  std::shared_ptr<nn::Arena> arena_;
  std::vector<Replica> replicas_;     // of the devices after the first
  std::vector<nn::Module*> modules_;  // one per device
  std::vector<Own> own_;              // in the order of the arena
  Workers workers_;
  std::uint64_t sent_ = 0;
  std::shared_ptr<comm::DeviceClock> clock_;  // null unless timed
  bool running_ = false;
  std::function<void(const std::string&)> on_failure_;
};

}  // namespace ringlet::train
