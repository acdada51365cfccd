// Training steps, captured once for each shape and then replayed (core/device/graph.h). A step that
// cannot be captured runs without a graph, on the same filled-up batch and so with the same bits.
// Ranks of a strategy agree before each step: they all replay, or all run it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringlet/core/base/recently_used.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/step/task.h"

namespace ringlet::train {

class RankStrategy;

/// The key of a graph: all shapes of a step, and its values in host memory. The number of rows is
/// not rounded up: a dummy row would be a negative of every other row. Every loss would have to
/// mask it in every step, only to save the cost of one graph. A run has two numbers of rows for
/// each data set, that of its batches and that of an epoch's last one.
struct StepKey {
  std::int64_t tokens = 0;        // of the bucket
  std::int64_t length_class = 0;  // of the longest sentence
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  /// The divisor of the loss, by value. A loader's batches for one device have their rows there; a
  /// batch with another divisor must not find their graph.
  std::int64_t global_rows = 0;
  std::size_t dataset = 0;  // which loss
  std::optional<DType> labels = {};
  DType dtype = DType::f32;  // of the activations
  bool training = true;

  auto operator<=>(const StepKey&) const = default;
};

/// Nothing for a batch that fits no bucket.
inline std::optional<StepKey> step_key(const models::PackedBatch& batch, DType dtype,
                                       bool training) {
  const std::int64_t tokens = models::bucket_of(batch);
  const std::int64_t longest = models::length_class(batch.max_length);
  if (tokens == 0) return std::nullopt;
  StepKey key{tokens,        longest,      batch.rows, batch.columns, batch.global_rows,
              batch.dataset, std::nullopt, dtype,      training};
  if (batch.labels.defined()) key.labels = batch.labels.dtype();
  return key;
}

struct StepGraphsOptions {
  StepGraphMode mode = StepGraphMode::automatic;
  DType dtype = DType::f32;  // of the activations
  /// Called once for each reason why steps are not captured, with one line.
  std::function<void(const std::string&)> on_note = {};
};

class StepGraphs {
 public:
  /// One graph for each key; the least recently used one is evicted.
  static constexpr std::size_t kMostGraphs = 24;

  /// Enqueues a batch's forward and backward and returns the loss, (). With a key's first batch it
  /// is called twice, to run and to be captured; later batches do not call it. Its other work on
  /// the host is therefore not repeated, except for gradients, which are defined after each step.
  /// Batches of the same shapes must reach the same parameters. No gradient changes after backward.
  using Work = std::function<Tensor(const models::PackedBatch& on_device)>;

  /// For steps of `optimizer` on `module`, which lies on `device`; both outlive this object.
  StepGraphs(nn::Module& module, Optimizer& optimizer, Device device,
             StepGraphsOptions options = {});

  /// Runs `work` on a batch that lies on the CPU, then the optimizer's prepare_step and
  /// launch_step; finish_step is left to the caller. The first batch of a key runs, which makes
  /// plans, and is then captured. Later ones are replayed and take no memory from the device. The
  /// loss is valid until the next step.
  Tensor run(const models::PackedBatch& batch, const Work& work);

  /// The same without a graph and on the unchanged batch, for a loss that does not declare that it
  /// takes a filled-up one; `why` is noted.
  Tensor run_eagerly(const models::PackedBatch& batch, const Work& work, const std::string& why);

  std::size_t captured() const { return captured_; }  // graphs so far
  std::size_t replayed() const { return replayed_; }  // steps

 private:
  struct Step {
    models::PackedBatch inputs;           // on the device, where a graph reads them
    Tensor loss = {};                     // (), where the graph writes it
    std::vector<bool> reached = {};       // the parameters with a gradient after the step
    std::vector<std::int64_t> plan = {};  // the optimizer's, in the graph
    std::uint64_t fits = 0;               // equal in graphs of ranks that fit together
    std::unique_ptr<DeviceGraph> graph = {};
  };
  /// The addresses that a graph contains: if others are in use, it is invalid.
  using Addresses = std::vector<const void*>;

  /// How a step runs: the least of all ranks' turns.
  enum class Turn : std::uint64_t {
    never,     // eagerly, and none is captured from here on
    eager,     // this one
    captured,  // eagerly, and then captured
    replayed,
  };

  bool may_be_graph();
  Step& step_of(const StepKey& key);
  /// The turn of all ranks; called on each of them.
  Turn agree(Turn mine, const Step* step);
  std::uint64_t fits_of(const Step& step) const;
  Tensor run_first(Step& step, const Work& work);
  /// Empty, or the reason why there is no graph.
  std::string capture_step(Step& step, const Work& work);
  bool prepare_replay(const Step& step);
  Tensor replay(Step& step);
  Tensor update(Tensor loss);
  void give_up(const std::string& why);
  void give_up_with(const std::vector<std::string>& reasons);
  Addresses addresses() const;
  std::vector<bool> reached() const;
  void set_reached(const std::vector<bool>& reached) const;
  std::shared_ptr<RankStrategy> strategy() const;  // null without a strategy over ranks
  std::string why_not() const;
  void drop_sidecars() const;
  void note(const std::string& why);

  nn::Module& module_;
  Optimizer& optimizer_;
  Device device_;
  StepGraphsOptions options_;
  std::vector<nn::Parameter> parameters_;
  std::vector<const nn::Module*> modules_;
  RecentlyUsed<StepKey, Step> steps_{kMostGraphs};
  Addresses addresses_;
  SiteKeys keys_;  // of dropout
  bool gave_up_ = false;
  std::string why_;                   // the reason
  bool votes_;                        // whether ranks agree before each step
  std::vector<std::uint64_t> peers_;  // the hash of each rank's addresses
  std::set<std::string> noted_;
  std::size_t captured_ = 0, replayed_ = 0;
};

}  // namespace ringlet::train
