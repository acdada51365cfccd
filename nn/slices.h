// Leaves that are slices of whole tensors, and layers that are computed in slices: by rows or
// columns of a weight, by heads, by words.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ringlet/autograd/functions.h"
#include "ringlet/comm/group.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// The first of `n` elements that belongs to slice `index` of `count`; slices differ by at most
/// one.
constexpr std::int64_t slice_edge(std::int64_t n, int index, int count) {
  return n * index / count;
}

/// Slice `group.rank()` along dimension `dim`. The other ranks of the group hold the others.
struct LeafSlice {
  comm::Group group;
  Shape whole;
  int dim;

  std::int64_t begin(int rank) const { return slice_edge(whole[dim], rank, group.size()); }
  std::int64_t length(int rank) const { return begin(rank + 1) - begin(rank); }
  /// This rank's slice of a whole tensor, as a copy.
  Tensor of(const Tensor& value) const;
  /// The whole tensor of all ranks' slices. Collective.
  Tensor gather(const Tensor& mine) const;
  /// This rank's slice of the sum of all ranks' whole tensors, which may be overwritten. `dim` is
  /// 0. Collective.
  Tensor reduce(Tensor value) const;
  /// Visits elements [first, last) of the slice in runs that are contiguous in the whole tensor.
  /// There elements [begin, end) start at `at`.
  using Visit = std::function<void(std::int64_t at, std::int64_t begin, std::int64_t end)>;
  void for_runs(std::int64_t first, std::int64_t last, const Visit& visit) const;

 private:
  /// Elements of dimensions [from, to) of the whole tensor.
  std::int64_t numel(int from, int to) const;
  std::vector<std::int64_t> counts() const;  // elements of each rank's slice
};

/// How a model's layers are cut: one slice per rank or, in the reference mode, several on one rank.
/// Ranks call the same functions in the same order, and so do their backwards.
class LayerSlices {
 public:
  LayerSlices() = default;  // one slice, which is all
  /// `here` is the number of slices that each rank computes, 1 if there are several ranks. With
  /// `sequence`, rank r has slice r of the rows of activations outside of the slices (sequence
  /// parallelism, Korthikanti et al. 2022).
  LayerSlices(comm::Group group, int here, bool sequence = false);

  const comm::Group& group() const { return group_; }
  int count() const { return group_.size() * here_; }
  int here() const { return here_; }
  /// The number, among all, of slice `i` of those here.
  int number(int i) const { return group_.rank() + i; }

  /// x for each slice here (Megatron-LM's f): its gradient is the sum of the slices' and the
  /// ranks'. `rows` are those of x on all ranks.
  std::vector<Variable> inputs(const Variable& x, std::int64_t rows = -1) const;
  /// The sum of the slices' partial results (R, C), in order, and then of the ranks' (Megatron-LM's
  /// g), plus `bias` (C).
  Variable sum(const std::vector<Variable>& partial, const Variable& bias = {}) const;
  /// Slice `i` of a parameter or an activation, which among several ranks it already is.
  Variable part(const Variable& whole, int axis, int i) const;
  /// f(i) of each slice `i` here, joined along `axis`.
  template <class F>
  Variable join(int axis, const F& f) const {
    std::vector<Variable> parts;
    for (int i = 0; i < here_; ++i) parts.push_back(f(i));
    return parts.size() == 1 ? parts[0] : autograd::concat(parts, axis);
  }

  // ---- sequence parallelism, on the rows outside of the slices ----

  /// This rank's slice of x's rows. The gradient is gathered.
  Variable own_rows(const Variable& x) const;
  /// The `rows` rows of all ranks. All ranks have the same gradient of them.
  Variable all_rows(const Variable& x, std::int64_t rows) const;
  /// The rows of slice `i` of those here.
  Tensor rows_of(const Tensor& all, int i) const;
  /// A parameter for the rows of each slice here: its gradient is the sum of theirs, in order. They
  /// are copies, because backward would keep memory that FSDP takes back.
  std::vector<Variable> copies(const Variable& parameter) const;

 private:
  std::vector<Variable> each(const Variable& x, const Tensor& value, bool sequence) const;
  Tensor gather_rows(const Tensor& mine, std::int64_t rows) const;
  Tensor sum_over(std::vector<Tensor> parts, bool sequence) const;

  comm::Group group_;
  int here_ = 1;
  bool sequence_ = false;
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
/// The ranks that hold slices of some of the parameters; a group of one if all are whole.
inline comm::Group slice_group(const Module& module) {
  for (const Parameter& parameter : module.parameters())
    if (const auto& slice = parameter.state()->slice) return slice->group;
  return {};
}

}  // namespace ringlet::nn
