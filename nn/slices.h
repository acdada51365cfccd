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
  LayerSlices() = default;  // one slice, which is all
  /// `here` is the number of slices that each rank computes, 1 if there are several ranks. With
  /// `sequence`, rank r has slice r of the rows of activations outside of the slices.
  LayerSlices(std::shared_ptr<SliceRanks> ranks, int here, bool sequence = false)
      : ranks_(std::move(ranks)), here_(here), keep_(sequence ? Keep::own_rows : Keep::all) {
    RINGLET_CHECK(here == 1 || ranks_->size() == 1, "[slices] ", here, " on each of ",
                  ranks_->size(), " ranks");
  }
  int count() const { return ranks_ ? ranks_->size() * here_ : 1; }
  int here() const { return here_; }
  /// The number, among all, of slice `i` of those here.
  int number(int i) const { return ranks_ ? ranks_->rank() + i : 0; }
  const std::shared_ptr<SliceRanks>& ranks() const { return ranks_; }

  /// x for each slice here, see autograd::slice_inputs; `rows` are those of x on all ranks.
  std::vector<Variable> inputs(const Variable& x, std::int64_t rows = -1) const {
    if (keep_ == Keep::all) return autograd::slice_inputs(x, x.tensor(), here_, ranks_);
    RINGLET_CHECK(rows >= 0, "[slices] of an unknown number of rows");
    return autograd::slice_inputs(x, autograd::gather_rows(x.tensor(), rows, ranks_), here_, ranks_,
                                  keep_);
  }
  /// See autograd::slice_sum.
  Variable sum(const std::vector<Variable>& partial, const Variable& bias = {}) const {
    return autograd::slice_sum(partial, keep_ == Keep::all ? std::vector{bias} : copies(bias),
                               ranks_, keep_);
  }
  /// Slice `i` of a parameter or an activation, which among several ranks it already is.
  Variable part(const Variable& whole, int axis, int i) const {
    if (!whole || here_ == 1) return whole;
    const std::int64_t n = whole.size(axis), begin = autograd::slice_edge(n, i, here_);
    return autograd::narrow(whole, axis, begin, autograd::slice_edge(n, i + 1, here_) - begin);
  }
  /// f(i) of each slice `i` here, joined along `axis`.
  template <class F>
  Variable join(int axis, const F& f) const {
    std::vector<Variable> parts;
    for (int i = 0; i < here_; ++i) parts.push_back(f(i));
    return parts.size() == 1 ? parts[0] : autograd::concat(parts, axis);
  }

  // ---- sequence parallelism, on the rows outside of the slices ----

  Variable own_rows(const Variable& x) const {
    return !ranks_ || ranks_->size() == 1 ? x : autograd::own_rows(x, ranks_);
  }
  Variable all_rows(const Variable& x, std::int64_t rows) const {
    return !ranks_ || ranks_->size() == 1 ? x : autograd::all_rows(x, rows, ranks_);
  }
  /// The rows of slice `i` of those here.
  Tensor rows_of(const Tensor& all, int i) const {
    return all ? autograd::slice_rows(all, number(i), count()) : all;
  }
  /// A parameter for the rows of each slice here: its gradient is the sum of theirs, in order. They
  /// are copies, because backward would keep memory that FSDP takes back.
  std::vector<Variable> copies(const Variable& parameter) const {
    if (!parameter || count() == 1) return {parameter};
    return autograd::slice_inputs(parameter, parameter.tensor().clone(), here_, ranks_);
  }

 private:
  using Keep = autograd::Keep;
  std::shared_ptr<SliceRanks> ranks_;
  int here_ = 1;
  Keep keep_ = Keep::all;
};

using SlicesPtr = std::shared_ptr<const LayerSlices>;

/// By columns of a layer's output; by rows of its input, which is the output of a layer cut by
/// columns; by heads of attention; by words of a table. An encoder by tokens (sequence
/// parallelism), which also cuts the attention and dense layers of its layers.
enum class SliceKind { columns, rows, heads, vocabulary, tokens };

/// A module that can compute in slices. Until `slice` is called it is whole.
class Sliceable {
 public:
  virtual ~Sliceable() = default;
  /// The number of output columns, input rows, heads or words; 0 if it has none to be cut. For
  /// tokens the number of heads, which ranks must divide. For heads and tokens -1 if a part of a
  /// layer was replaced.
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
