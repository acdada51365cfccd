#include "ringlet/nn/global_rows.h"

#include <numeric>

#include "ringlet/autograd/functions.h"
#include "ringlet/autograd/node.h"
#include "ringlet/comm/rows.h"

namespace ringlet::nn {
namespace {

using Counts = std::vector<std::int64_t>;

/// Where rank after rank, column after column, each row of the order by column and rank lies.
std::vector<std::int64_t> by_column(const Counts& counts, std::int64_t columns) {
  std::vector<std::int64_t> places;
  for (std::int64_t c = 0; c < columns; ++c) {
    std::int64_t rank = 0;  // its first row
    for (const std::int64_t rows : counts) {
      for (std::int64_t i = 0; i < rows; ++i) places.push_back(rank + c * rows + i);
      rank += columns * rows;
    }
  }
  return places;
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& places) {
  std::vector<std::int64_t> out(places.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    out[static_cast<std::size_t>(places[i])] = static_cast<std::int64_t>(i);
  return out;
}

Tensor on(Device device, const std::vector<std::int64_t>& places) {
  return tensor(places, {static_cast<std::int64_t>(places.size())}, device);
}

}  // namespace

GlobalRows::GlobalRows(comm::Group group, std::int64_t own)
    : group_(std::move(group)), counts_(comm::all_gather_count(group_, own)), own_(own) {
  begin_ = std::accumulate(counts_.begin(), counts_.begin() + group_.rank(), std::int64_t{0});
  size_ = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

Variable GlobalRows::gather(const Variable& embeddings, std::int64_t columns) const {
  if (group_.size() == 1) return embeddings;
  Counts sentences = counts_;
  for (std::int64_t& count : sentences) count *= columns;
  const auto places = by_column(counts_, columns);
  const Device device = embeddings.device();
  const Tensor ranked = comm::all_gather_rows(group_, embeddings.tensor(), sentences);
  return autograd::record(
      "gather_rows", index_select(ranked, 0, on(device, places)), {embeddings},
      [group = group_, sentences, back = on(device, inverse(places))](const Tensor& grad,
                                                                      autograd::Gradients& grads) {
        grads[0].set(comm::reduce_scatter_rows(group, index_select(grad, 0, back), sentences));
      });
}

Tensor GlobalRows::gather_values(const Tensor& values) const {
  return group_.size() == 1 ? values : comm::all_gather_rows(group_, values, counts_);
}

}  // namespace ringlet::nn
