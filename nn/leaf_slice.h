// Leaves that are slices of whole tensors, as under tensor parallelism.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ringlet/comm/group.h"

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

}  // namespace ringlet::nn
