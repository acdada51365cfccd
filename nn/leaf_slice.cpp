#include "ringlet/nn/leaf_slice.h"

#include <algorithm>

#include "ringlet/comm/rows.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::nn {

std::int64_t LeafSlice::numel(int from, int to) const {
  std::int64_t n = 1;
  for (int i = from; i < to; ++i) n *= whole[i];
  return n;
}

std::vector<std::int64_t> LeafSlice::counts() const {
  const std::int64_t others = numel(0, dim) * numel(dim + 1, whole.dim());
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < group.size(); ++rank) counts.push_back(others * length(rank));
  return counts;
}

Tensor LeafSlice::of(const Tensor& value) const {
  return narrow(value, dim, begin(group.rank()), length(group.rank()));
}

Tensor LeafSlice::gather(const Tensor& mine) const {
  const std::vector<std::int64_t> counts = this->counts();
  const Tensor all = comm::all_gather_rows(group, mine.view({-1}), counts);
  std::vector<Tensor> slices;
  std::int64_t at = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::int64_t end = at + counts[static_cast<std::size_t>(rank)];
    slices.push_back(all.slice(at, end).view(whole.with(dim, length(rank))));
    at = end;
  }
  return dim == 0 ? all.view(whole) : concat(slices, dim);
}

Tensor LeafSlice::reduce(Tensor value) const {
  RINGLET_CHECK(dim == 0, "[slices] of dimension ", dim, " of ", whole);
  return comm::reduce_scatter_rows(group, value.view({-1}), counts())
      .view(whole.with(0, length(group.rank())));
}

void LeafSlice::for_runs(std::int64_t first, std::int64_t last, const Visit& visit) const {
  const std::int64_t inner = numel(dim + 1, whole.dim());
  const std::int64_t run = length(group.rank()) * inner;
  while (first < last) {
    const std::int64_t outer = first / run, end = std::min(last, (outer + 1) * run);
    visit(outer * whole[dim] * inner + begin(group.rank()) * inner + first % run, first, end);
    first = end;
  }
}

}  // namespace ringlet::nn
