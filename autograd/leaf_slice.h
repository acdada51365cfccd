// Leaves that are slices of whole tensors, as under tensor parallelism, and the ranks that hold the
// other slices.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::autograd {

/// All ranks call the same functions in the same order.
class SliceRanks {
 public:
  virtual ~SliceRanks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Replaces the tensor by its sum over the ranks, added in rank order.
  virtual void all_reduce(Tensor tensor) = 0;
  /// counts[rank] elements of the sum of all ranks' tensors (sum of counts), added in rank order.
  /// May overwrite `all`.
  virtual Tensor reduce_scatter(Tensor all, std::span<const std::int64_t> counts) = 0;
  /// The tensors (counts[rank]) of every rank, joined in rank order.
  virtual Tensor all_gather(const Tensor& mine, std::span<const std::int64_t> counts) = 0;
  /// A few bytes of every rank, in rank order.
  virtual std::vector<std::string> all_gather_bytes(const std::string& mine) = 0;
  virtual void barrier() = 0;
};

/// The first of `n` elements that belongs to slice `index` of `count`; slices differ by at most
/// one.
constexpr std::int64_t slice_edge(std::int64_t n, int index, int count) {
  return n * index / count;
}

/// Slice `ranks->rank()` along dimension `dim`.
struct LeafSlice {
  std::shared_ptr<SliceRanks> ranks;
  Shape whole;
  int dim;

  std::int64_t begin(int rank) const { return slice_edge(whole[dim], rank, ranks->size()); }
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

}  // namespace ringlet::autograd
