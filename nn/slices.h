// Layers that are computed in slices: by rows or columns of a weight, by heads, by words.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ringlet/autograd/functions/index.h"
#include "ringlet/autograd/functions/slices.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

using autograd::LeafSlice;
using autograd::SliceRanks;

/// How a model's layers are cut: one slice per rank or, in the reference mode, several on one rank.
class LayerSlices {
 public:
  /// `here` is the number of slices that each rank computes, 1 if there are several ranks.
  LayerSlices(std::shared_ptr<SliceRanks> ranks, int here) : ranks_(std::move(ranks)), here_(here) {
    RINGLET_CHECK(here == 1 || ranks_->size() == 1, "[slices] ", here, " on each of ",
                  ranks_->size(), " ranks");
  }
  int count() const { return ranks_->size() * here_; }
  int here() const { return here_; }
  /// The number, among all, of slice `i` of those here.
  int number(int i) const { return ranks_->rank() + i; }
  const std::shared_ptr<SliceRanks>& ranks() const { return ranks_; }

  /// See autograd::slice_inputs and slice_sum.
  std::vector<Variable> inputs(const Variable& x) const {
    return autograd::slice_inputs(x, here_, ranks_);
  }
  Variable sum(const std::vector<Variable>& partial, const Variable& bias = {}) const {
    return autograd::slice_sum(partial, bias, ranks_);
  }
  /// Slice `i` of a parameter or an activation, which among several ranks it already is.
  Variable part(const Variable& whole, int axis, int i) const {
    if (!whole || here_ == 1) return whole;
    const std::int64_t n = whole.size(axis), begin = autograd::slice_edge(n, i, here_);
    return autograd::narrow(whole, axis, begin, autograd::slice_edge(n, i + 1, here_) - begin);
  }

 private:
  std::shared_ptr<SliceRanks> ranks_;
  int here_;
};

using SlicesPtr = std::shared_ptr<const LayerSlices>;

/// By columns of a layer's output; by rows of its input, which is the output of a layer cut by
/// columns; by heads of attention; by words of a table.
enum class SliceKind { columns, rows, heads, vocabulary };

/// A module that can compute in slices. Until `slice` is called it is whole.
class Sliceable {
 public:
  virtual ~Sliceable() = default;
  /// The number of output columns, input rows, heads or words; 0 if it has none to be cut.
  virtual std::int64_t pieces(SliceKind kind) const = 0;
  /// Cuts a parameter along a dimension, unless all slices are here.
  using Cut = std::function<void(const Parameter& parameter, int dim)>;
  /// Computes in slices from now on, with the parameters that it passes to `cut`.
  virtual void slice(SliceKind kind, const SlicesPtr& slices, const Cut& cut) = 0;
};

// ---- parameters that are slices -------------------------------------------------------------

/// The shape of the whole parameter.
inline Shape whole_shape(const Parameter& parameter) {
  const auto& slice = parameter.state()->slice;
  return slice ? slice->whole : parameter.shape();
}
/// The elements of a rank's slice.
inline std::int64_t numel_on(const Parameter& parameter, int rank) {
  const auto& slice = parameter.state()->slice;
  return slice ? slice->whole.with(slice->dim, slice->length(rank)).numel() : parameter.numel();
}
/// This rank's slice of a whole value.
inline Tensor slice_of(const Parameter& parameter, const Tensor& value) {
  const auto& slice = parameter.state()->slice;
  return slice ? slice->of(value) : value;
}
/// The ranks that hold slices of some of the parameters; null if all are whole.
inline std::shared_ptr<SliceRanks> slice_ranks(const Module& module) {
  for (const Parameter& parameter : module.parameters())
    if (const auto& slice = parameter.state()->slice) return slice->ranks;
  return nullptr;
}

}  // namespace ringlet::nn
