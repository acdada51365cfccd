#include "scaling_model.h"

#include <algorithm>

#include "ringlet/core/error.h"
#include "ringlet/train/parallel/distributed_data_parallel.h"
#include "spread.h"

namespace ringlet::bench {
namespace {

/// A compute stream and a concurrent communication stream.
class Streams {
 public:
  explicit Streams(double share) : share_(share) {}

  void compute(double seconds) {
    now_ += seconds;
    computed_ += seconds;
  }
  /// A collective, ordered after the earlier ones; returns when it ends.
  double start(double seconds) {
    wire_ = std::max(wire_, now_) + seconds;
    now_ += share_ * seconds;
    return wire_;
  }
  void wait(double end) { now_ = std::max(now_, end); }
  void wait() { wait(wire_); }

  double computed() const { return computed_; }
  double exposed() const { return now_ - computed_; }

 private:
  double share_;
  double now_ = 0, wire_ = 0, computed_ = 0;
};

class Model {
 public:
  Model(const DeviceStep& device, const Network& network, const Link& link, int n, double slowest)
      : device_(device),
        network_(network),
        link_(link),
        n_(n),
        streams_(link.share),
        forward_s_(slowest * device.forward_s),
        backward_s_(slowest * device.backward_s),
        late_(device.spread * expected_maximum(n)) {
    streams_.compute((device.accumulations - 1) * (forward_s_ + backward_s_));
  }

  Step run(train::Strategy strategy) {
    switch (strategy) {
      case train::Strategy::none:
        streams_.compute(forward_s_ + backward_s_);
        return step(1);
      case train::Strategy::dp:
        dp();
        return step(1);
      case train::Strategy::ddp:
        ddp();
        return step_of_slowest(1);
      case train::Strategy::zero1:
      case train::Strategy::zero2:
        zero();
        return step_of_slowest(n_);
      case train::Strategy::fsdp:
        fsdp();
        return step_of_slowest(n_);
    }
    return {};
  }

 private:
  Step step(int shards) const {
    return {streams_.computed(), streams_.exposed(), device_.optimizer_s / shards, sent_,
            gather_s_,           straggler_s_};
  }

  // Exact for ranks that meet once per step, as under DDP. The ranks of ZeRO and FSDP meet more
  // often, and may wait longer.
  Step step_of_slowest(int shards) {
    Step all = step(shards);
    all.straggler_s = late_ * (all.compute_s + all.optimizer_s);
    all.exposed_s += all.straggler_s;
    return all;
  }

  double all_reduce(double bytes) { return streams_.start(passes(2, bytes)); }
  double reduce_scatter(double bytes) { return streams_.start(passes(1, bytes)); }
  double all_gather(double bytes) { return streams_.start(passes(1, bytes)); }
  double passes(int count, double bytes) {
    sent_ += count * (n_ - 1.0) / n_ * bytes;
    return count == 2 ? link_.all_reduce(n_, bytes) : link_.reduce_scatter(n_, bytes);
  }

  /// The table's gradient; only its rows if all devices' rows are smaller than the table.
  void reduce_table(bool sharded) {
    const double rows = n_ * network_.row_bytes;
    if (rows > 0 && rows < network_.table_bytes)
      all_gather(rows);
    else if (sharded)
      reduce_scatter(network_.table_bytes);
    else
      all_reduce(network_.table_bytes);
  }

  // Sequentially through the first device, without concurrent computing.
  void dp() {
    streams_.compute(forward_s_ + backward_s_);
    straggler_s_ = late_ * streams_.computed();
    streams_.compute(straggler_s_);
    const double copies = device_.forwards * (n_ - 1.0);
    const double gradients = copies * link_.copy(network_.bytes());
    streams_.wait(streams_.start(link_.shared_memory ? gradients : 2 * gradients));
    sent_ = link_.shared_memory ? 0 : copies * network_.bytes();
  }

  void ddp() {
    streams_.compute(forward_s_);
    const train::DistributedDataParallelOptions options;
    const double all = network_.layers * network_.layer_bytes;
    double bucket = options.first_bucket_mb * (1 << 20);
    for (double left = all; left > 0; bucket = options.bucket_cap_mb * (1 << 20)) {
      const double bytes = std::min(left, bucket);
      streams_.compute(bytes / all * backward_s_);
      all_reduce(bytes);
      left -= bytes;
    }
    all_reduce(network_.rest_bytes);
    reduce_table(false);
    streams_.wait();
  }

  // Parameters are gathered after the optimizer's update: fully exposed.
  void zero() {
    streams_.compute(forward_s_);
    for (int layer = 0; layer < network_.layers; ++layer) {
      streams_.compute(backward_s_ / network_.layers);
      reduce_scatter(network_.layer_bytes);
    }
    reduce_scatter(network_.rest_bytes);
    reduce_table(true);
    streams_.wait();
    const double reduced = streams_.exposed();
    for (int layer = 0; layer < network_.layers; ++layer) all_gather(network_.layer_bytes);
    all_gather(network_.rest_bytes + network_.table_bytes);
    streams_.wait();
    gather_s_ = streams_.exposed() - reduced;
  }

  // A unit is gathered while the previous one computes. The first and last unit are the embeddings.
  void fsdp() {
    const double layer = device_.bf16 ? network_.layer_bytes / 2 : network_.layer_bytes;
    const double embeddings = network_.rest_bytes + network_.table_bytes;
    for (int i = 0; i < device_.forwards; ++i) {
      streams_.wait(all_gather(embeddings));
      double gathered = all_gather(layer);
      for (int unit = 1; unit <= network_.layers; ++unit) {
        streams_.wait(gathered);
        if (unit < network_.layers) gathered = all_gather(layer);
        streams_.compute(forward_s_ / device_.forwards / network_.layers);
      }
    }
    double gathered = all_gather(layer);
    for (int unit = network_.layers; unit > 0; --unit) {
      streams_.wait(gathered);
      gathered = all_gather(unit > 1 ? layer : embeddings);
      streams_.compute(backward_s_ / network_.layers);
      reduce_scatter(network_.layer_bytes);
    }
    reduce_scatter(network_.rest_bytes);
    reduce_table(true);
    streams_.wait();
  }

  const DeviceStep& device_;
  const Network& network_;
  const Link& link_;
  int n_;
  Streams streams_;
  double forward_s_, backward_s_;
  double late_;  // excess of the slowest rank over the mean, as a share
  double sent_ = 0;
  double gather_s_ = 0;
  double straggler_s_ = 0;
};

}  // namespace

DeviceStep measured_step(double samples, double seconds, double forward_s, double backward_s,
                         double optimizer_s) {
  const double both = seconds - optimizer_s;
  DeviceStep device;
  device.samples = samples;
  device.forward_s = both * forward_s / (forward_s + backward_s);
  device.backward_s = both - device.forward_s;
  device.optimizer_s = optimizer_s;
  return device;
}

Step model_step(const DeviceStep& device, const Network& network, const Link& link,
                train::Strategy strategy, int n) {
  if (strategy == train::Strategy::dp && n > link.node)
    fail_input("dp has its devices in one process, of which ", link.name, " has ", link.node,
               " at most, not ", n);
  // Under DP the devices share a batch of one data set.
  const bool alike = n == 1 || strategy == train::Strategy::dp;
  return Model(device, network, link, n, alike ? 1 : device.slowest).run(strategy);
}

double model_rate(const DeviceStep& device, const Network& network, const Link& link,
                  train::Strategy strategy, int n) {
  return n * device.samples / model_step(device, network, link, strategy, n).seconds();
}

DeviceStep calibrate(DeviceStep device, const Network& network, const Link& link,
                     train::Strategy strategy, int n, double samples_per_s) {
  double low = 0, high = n * device.samples / samples_per_s;
  // Bisection to the last bit.
  for (double both; both = (low + high) / 2, low < both && both < high;) {
    device.forward_s = both / 3;
    device.backward_s = both * 2 / 3;
    (model_rate(device, network, link, strategy, n) > samples_per_s ? low : high) = both;
  }
  return device;
}

}  // namespace ringlet::bench
