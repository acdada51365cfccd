// The alpha-beta model: the cost of collectives and training steps on n devices, from a one-device
// step and the constants of a link. Results are modelled, never measured. Seconds and bytes.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/train/parallel/attached_strategy.h"

namespace ringlet::bench {

/// The link between devices, faster inside a node than between nodes. Rates are nccl-tests' busbw:
/// bytes per second that each device sends in a ring.
class Link {
 public:
  std::string name;
  int node = std::numeric_limits<int>::max();  // devices per node
  double base_s = 0;                           // per collective
  double hop_s = 0;                            // to the next device of the node
  double rate = std::numeric_limits<double>::infinity();
  double node_hop_s = 0;
  double node_rate = std::numeric_limits<double>::infinity();
  bool tree = false;  // whether all-reduces may run over NCCL's tree
  /// Timed all-reduces of two devices, (bytes, seconds), ascending: replace base_s, hop_s and rate.
  std::vector<std::pair<double, double>> timed;
  /// The share of a collective's time that concurrent computing loses: 1 if the same core does
  /// both.
  double share = 0;
  bool shared_memory = false;  // DP's replicas read the parameters in place

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

/// The exchanged data: gradients, and their parameters.
struct Network {
  int layers = 0;
  double layer_bytes = 0;
  double table_bytes = 0;  // of the word embedding
  double row_bytes = 0;    // of its rows read by one device's batch; 0: the whole table is sent
  double rest_bytes = 0;   // of the other embeddings: ready last

  double bytes() const { return layers * layer_bytes + table_bytes + rest_bytes; }
};

/// A step of one device.
struct DeviceStep {
  double samples = 0;    // per step, over all accumulations
  double forward_s = 0;  // per accumulation
  double backward_s = 0;
  double optimizer_s = 0;
  int accumulations = 1;
  bool bf16 = false;  // FSDP gathers the layers' matrices in it
  int forwards = 1;   // 2: one forward per column of a pair; FSDP and DP then also send twice
  /// Compute time of the slowest of several ranks over the mean, if their batches differ.
  double slowest = 1;
  /// A rank's step relative to its peers' in the same step: standard deviation / mean.
  double spread = 0;

  double seconds() const { return accumulations * (forward_s + backward_s) + optimizer_s; }
};

/// A step of `samples` that took `seconds`. The medians of phases do not add up to the median of
/// steps, so forward and backward divide the time without the optimizer in proportion.
DeviceStep measured_step(double samples, double seconds, double forward_s, double backward_s,
                         double optimizer_s);

/// A modelled step, by part.
struct Step {
  double compute_s = 0;    // forward and backward
  double exposed_s = 0;    // collectives that are not overlapped
  double optimizer_s = 0;  // a share of it if its state is sharded
  double sent_bytes = 0;   // by one device; by the first one under DP
  double gather_s = 0;     // part of exposed_s: parameters, after the update of ZeRO-1 and ZeRO-2
  /// The expected excess of the slowest rank's step over the mean; its peers wait for it. Part of
  /// exposed_s; under DP of compute_s, since its threads meet after forward and backward.
  double straggler_s = 0;

  double seconds() const { return compute_s + exposed_s + optimizer_s; }
};

/// InputError for DP on more devices than a node has: DP is one process.
Step model_step(const DeviceStep& device, const Network& network, const Link& link,
                train::Strategy strategy, int n);

/// Samples per second of all devices together.
double model_rate(const DeviceStep& device, const Network& network, const Link& link,
                  train::Strategy strategy, int n);

/// `device` with forward : backward = 1 : 2, scaled to this rate on n devices.
DeviceStep calibrate(DeviceStep device, const Network& network, const Link& link,
                     train::Strategy strategy, int n, double samples_per_s);

}  // namespace ringlet::bench
