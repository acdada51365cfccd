// The state of an optimizer: each parameter's count of updates, its moments, and the parts of both
// that lie on this rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/nn/sharding.h"

namespace ringlet::train {

/// Whether a parameter takes part in weight decay, as in transformers' Trainer: not where the name
/// contains "bias" or "LayerNorm", nor vectors.
bool decays_by_default(const std::string& name, const Shape& shape);

/// Parameters with a separate learning rate or weight decay.
struct ParameterGroup {
  /// Patterns of name_pattern.h: of a parameter, or of a module and so of all below it.
  std::vector<std::string> parameters;
  std::optional<double> lr = {};  // none: the optimizer's
  /// Counts for each parameter named, biases included; none: the optimizer's.
  std::optional<double> weight_decay = {};
};
/// The groups as text, for messages and checkpoints.
std::string describe(const std::vector<ParameterGroup>& groups);

/// The settings that all update rules have.
struct UpdateSettings {
  double lr;
  double weight_decay;                 // see decays_by_default
  std::vector<ParameterGroup> groups;  // of several that name a parameter, the first counts
  double max_grad_norm;
  bool check_finite;
  double ema_decay;  // 0: no moving average
};

class OptimizerState {
 public:
  /// One parameter, by its name. Its tensors by what they are ("exp_avg"): the parameter's part
  /// that is here, as views.
  struct Named {
    std::string name;
    std::int64_t steps = 0;
    std::vector<std::pair<std::string, Tensor>> moments;
  };
  struct Entry {
    nn::PlacedParameter placed;
    std::optional<double> lr;  // none: the optimizer's
    double weight_decay;
    std::int64_t steps = 0;
    bool updated = false;  // by the step that was prepared
    bool has_grad() const { return placed.parameter.grad().defined(); }
  };
  /// The part of a parameter that lies in a local slice.
  struct Span {
    std::size_t entry, slice;
    std::int64_t begin, end;  // elements of the arena
  };
  using Indices = std::vector<std::size_t>;  // of entries

  OptimizerState(nn::Module& module, const UpdateSettings& settings,
                 std::vector<std::string> moment_names);

  nn::Arena& arena() const { return *arena_; }
  /// The ranks of tensor parallelism; one without it.
  const comm::Group& slice_group() const { return slice_group_; }
  /// The elements of the arena, or of the largest one of those ranks.
  std::int64_t largest_arena() const;
  Device device() const { return entries_.front().placed.parameter.device(); }
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<nn::LocalSlice>& slices() const { return slices_; }
  std::vector<Span> spans() const;
  Tensor grad(const Span& span) const { return part(slices_[span.slice].grad, span); }
  /// The span's part of a tensor of its slice.
  Tensor part(const Tensor& of_slice, const Span& span) const;

  /// Makes the slices, moments and entries those of the coming step. Error if it would use a
  /// gradient that no backward since the last step has made, or that is not summed.
  void prepare_step();
  /// Counts the prepared step; returns the parameters that it updates.
  Indices count_step();
  /// Such a step has updated nothing.
  void undo(const Indices& updated);

  const std::vector<std::string>& moment_names() const { return names_; }
  /// Moments of each of the slices, by name, (end - begin) each.
  const std::vector<std::vector<Tensor>>& moments() const { return moments_; }
  /// The same of the arena's present slices, made as zeros before the first step.
  const std::vector<std::vector<Tensor>>& local_moments() {
    refresh_slices();
    make_moments();
    return moments_;
  }
  /// Every parameter, in the arena's order, without moments.
  std::vector<Named> updates() const;
  /// The same with the moments of those that were updated.
  std::vector<Named> state();
  void load(const std::vector<Named>& states);
  /// The counts alone; moments are written through local_moments().
  void set_updates(const std::vector<Named>& states);

 private:
  void refresh_slices();
  void make_moments();
  void check_parameters() const;
  std::size_t entry_of(const Named& given) const;

  std::vector<std::string> names_;  // of the moments
  std::shared_ptr<nn::Arena> arena_;
  comm::Group slice_group_;
  std::vector<Entry> entries_;
  std::vector<nn::LocalSlice> slices_;
  std::vector<std::vector<Tensor>> moments_;  // per slice, per name
};

}  // namespace ringlet::train
