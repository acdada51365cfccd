#include "ringlet/nn/global_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

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

std::int64_t rows_in(const Counts& counts, int begin, int end) {
  return std::accumulate(counts.begin() + begin, counts.begin() + end, std::int64_t{0});
}

}  // namespace

GlobalRows::GlobalRows(comm::Group group, std::int64_t own)
    : group_(std::move(group)), counts_(comm::all_gather_count(group_, own)) {
  count(group_.rank());
}

GlobalRows::GlobalRows(std::shared_ptr<BlockRows> block)
    : block_(std::move(block)), counts_(block_->counts()) {
  count(block_->logical_rank(block_->place()));
}

void GlobalRows::count(int rank) {
  const auto ranks = static_cast<int>(counts_.size());
  own_ = counts_[static_cast<std::size_t>(rank)];
  begin_ = rows_in(counts_, 0, rank);
  size_ = rows_in(counts_, 0, ranks);
}

Variable GlobalRows::gather(const Variable& embeddings, std::int64_t columns) const {
  if (block_) {
    const Tensor all = block_->gather(embeddings.tensor(), columns, /*has_gradient=*/true);
    return autograd::record(
        "gather_rows", all, {embeddings},
        [block = block_, gather = block_->gathers() - 1, place = block_->place()](
            const Tensor& grad, autograd::Gradients& grads) {
          if (const Tensor own = block->gradient(gather, place, grad); own.defined())
            grads[0].set(own);
          else
            grads[0].skip();
        });
  }
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
  if (block_) return block_->gather(values, 1, /*has_gradient=*/false);
  return group_.size() == 1 ? values : comm::all_gather_rows(group_, values, counts_);
}

// ---- a block of logical ranks ----

BlockRows::BlockRows(comm::Group group, const std::vector<std::int64_t>& own, int logical_ranks)
    : group_(std::move(group)),
      logical_ranks_(logical_ranks),
      block_(leaves_of_rank(group_.rank(), group_.size(), logical_ranks)) {
  for (const auto& each : comm::all_gather_values(group_, own))
    counts_.insert(counts_.end(), each.begin(), each.end());
  RINGLET_CHECK_EQ(std::ssize(own), std::ptrdiff_t{block_.size()}, "[loss] batches of this rank");
  for (int rank = 0; rank < group_.size(); ++rank) {
    const LeafRange block = leaves_of_rank(rank, group_.size(), logical_ranks);
    by_group_.push_back(rows_in(counts_, block.begin, block.end));
  }
}

void BlockRows::start(std::size_t place) {
  place_ = place;
  next_ = 0;
}

Tensor BlockRows::gather(const Tensor& own, std::int64_t columns, bool has_gradient) {
  if (next_ == gathered_.size()) {
    Gathered& added = gathered_.emplace_back(Gathered{columns, has_gradient});
    added.own.resize(static_cast<std::size_t>(block_.size()));
  }
  Gathered& here = gathered_[next_++];
  if (here.all.defined()) return here.all;
  here.own[place_] = own;
  if (!std::ranges::all_of(here.own, &Tensor::defined)) throw Missing();
  gather_all(here);
  return here.all;
}

void BlockRows::gather_all(Gathered& gathered) {
  std::vector<std::int64_t> sentences = by_group_;
  for (std::int64_t& count : sentences) count *= gathered.columns;
  const Tensor mine = concat(std::exchange(gathered.own, {}), 0);
  const Tensor ranked = comm::all_gather_rows(group_, mine, sentences);
  gathered.all = index_select(ranked, 0, on(ranked.device(), by_column(counts_, gathered.columns)));
}

bool BlockRows::collect(std::size_t gather) {
  collecting_ = gather;
  sum_ = {block_, logical_ranks_};
  return gathered_[gather].has_gradient;
}

Tensor BlockRows::gradient(std::size_t gather, std::size_t place, const Tensor& grad) {
  Gathered& here = gathered_[gather];
  const int rank = logical_rank(place);
  if (here.gradient.defined()) {
    const std::int64_t begin = here.columns * rows_in(counts_, block_.begin, rank);
    return here.gradient.slice(begin,
                               begin + here.columns * counts_[static_cast<std::size_t>(rank)]);
  }
  if (gather != collecting_) return {};
  const auto back = inverse(by_column(counts_, here.columns));
  const Tensor values = index_select(grad, 0, on(grad.device(), back));
  if (rank + 1 < block_.end) {
    sum_.add(values.view({-1}));
  } else {
    sum_gradients(here, sum_.nodes(values.view({-1})), values.shape());
  }
  return {};
}

void BlockRows::sum_gradients(Gathered& gathered, const std::vector<Tensor>& nodes,
                              const Shape& shape) {
  const std::int64_t width = gathered.columns * shape.without(0).numel();
  comm::Pieces pieces;
  for (const std::int64_t rows : by_group_) {
    const std::int64_t begin = pieces.empty() ? 0 : pieces.back().offset + pieces.back().count;
    pieces.push_back({begin, rows * width});
  }
  const std::int64_t mine = by_group_[static_cast<std::size_t>(group_.rank())] * gathered.columns;
  const Tensor& first = nodes.front();
  gathered.gradient = empty(shape.with(0, mine), first.dtype(), first.device());
  group_.reduce_scatter(gathered.gradient, comm::NodeSums{nodes, logical_ranks_}, pieces).wait();
}

}  // namespace ringlet::nn
