// The alpha-beta model: what collectives and training steps cost on n devices, out of a step of one
// device and the constants of a link. What it gives is modelled, never measured. Seconds and bytes.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/train/parallel/attached_strategy.h"

namespace ringlet::bench {

/// What joins devices, those of a node more closely than nodes. Rates are nccl-tests' busbw: bytes
/// that each device sends a second in a ring.
class Link {
 public:
  std::string name;
  int node = std::numeric_limits<int>::max();  // devices
  double base_s = 0;                           // of any collective
  double hop_s = 0;                            // to the next device of a node
  double rate = std::numeric_limits<double>::infinity();
  double node_hop_s = 0;
  double node_rate = std::numeric_limits<double>::infinity();
  bool tree = false;  // whether all-reduces may run over NCCL's tree
  /// All-reduces of two devices that were timed, (bytes, seconds), ascending: in place of base_s,
  /// hop_s and rate.
  std::vector<std::pair<double, double>> timed;
  /// Of the time that a collective takes, what it costs those who compute meanwhile: 1 where the
  /// same core does both.
  double share = 0;
  bool shared_memory = false;  // DP's replicas read the parameters where they lie

  double all_reduce(int n, double bytes) const;
  /// Each device ends with an n-th of the sum.
  double reduce_scatter(int n, double bytes) const;
  /// Each device ends with all `bytes`.
  double all_gather(int n, double bytes) const { return reduce_scatter(n, bytes); }
  /// From one device of a node to another.
  double copy(double bytes) const;

  // An all-reduce is two passes, reduce-scatter and all-gather one each:
  double ring(int n, double bytes, int passes) const;
  double direct(int n, double bytes, int passes) const;
  double tree_all_reduce(int n, double bytes) const;

 private:
  int nodes(int n) const { return (n - 1) / node + 1; }
  double timed_all_reduce(int n, double bytes) const;
};

/// What is exchanged: gradients, and the parameters that they belong to.
struct Network {
  int layers = 0;
  double layer_bytes = 0;
  double table_bytes = 0;  // of the word embedding
  double row_bytes = 0;    // of its rows that one device's batch reads; 0: it goes as a whole
  double rest_bytes = 0;   // of the embeddings besides: ready last

  double bytes() const { return layers * layer_bytes + table_bytes + rest_bytes; }
};

/// A step of one device.
struct DeviceStep {
  double samples = 0;    // of a step, each accumulation counted
  double forward_s = 0;  // of one accumulation
  double backward_s = 0;
  double optimizer_s = 0;
  int accumulations = 1;
  bool bf16 = false;  // FSDP gathers the layers' matrices in it
  int forwards = 1;   // 2: each column of a pair apart, and with it what FSDP and DP send
  /// Computing of the slowest of several ranks, where their batches are unlike, over the mean.
  double slowest = 1;
  /// Of a rank's step, from those of the others in the same step: standard deviation over mean.
  double spread = 0;

  double seconds() const { return accumulations * (forward_s + backward_s) + optimizer_s; }
};

/// One of `samples` that took `seconds`. Medians of phases do not add up to the median of steps, so
/// forward and backward share what the optimizer leaves of it.
DeviceStep measured_step(double samples, double seconds, double forward_s, double backward_s,
                         double optimizer_s);

/// A modelled step, and where it goes.
struct Step {
  double compute_s = 0;    // forward and backward
  double exposed_s = 0;    // collectives that nothing hides
  double optimizer_s = 0;  // a share of it where its state is sharded
  double sent_bytes = 0;   // by one device; by the first one under DP
  double gather_s = 0;     // of exposed_s: parameters, behind the update of ZeRO-1 and ZeRO-2
  /// By how much the slowest rank's step is expected to be longer than the mean: the others wait so
  /// long, in exposed_s; under DP, whose threads meet behind forward and backward, in compute_s.
  double straggler_s = 0;

  double seconds() const { return compute_s + exposed_s + optimizer_s; }
};

/// InputError for DP on more devices than a node has: they are in one process.
Step model_step(const DeviceStep& device, const Network& network, const Link& link,
                train::Strategy strategy, int n);

/// Samples a second of all devices together.
double model_rate(const DeviceStep& device, const Network& network, const Link& link,
                  train::Strategy strategy, int n);

/// `device` with the forward and backward, 1 : 2, that give this rate on n devices.
DeviceStep calibrate(DeviceStep device, const Network& network, const Link& link,
                     train::Strategy strategy, int n, double samples_per_s);

}  // namespace ringlet::bench
