#include "ringlet/train/parallel/group_peers.h"

#include <algorithm>

#include <numeric>

namespace ringlet::train {
namespace {

using Counts = std::span<const std::int64_t>;

/// Each rank's rows as elements of the joined tensor.
comm::Pieces pieces_of(Counts counts, const Shape& shape) {
  const std::int64_t width = shape.without(0).numel();
  comm::Pieces pieces;
  std::int64_t offset = 0;
  for (const std::int64_t count : counts) {
    pieces.push_back({offset, count * width});
    offset += count * width;
  }
  return pieces;
}

}  // namespace

std::vector<std::int64_t> GroupPeers::all_gather_count(std::int64_t count) {
  const std::vector<std::int64_t> one(static_cast<std::size_t>(size()), 1);
  return all_gather_rows(tensor(std::vector{count}, {1}, Device{}), one).to_vector<std::int64_t>();
}

Tensor GroupPeers::all_gather_rows(const Tensor& rows, Counts counts) {
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  Tensor all = empty(rows.shape().with(0, total), rows.dtype(), rows.device());
  group_().all_gather(all, rows, pieces_of(counts, rows.shape())).wait();
  return all;
}

Tensor GroupPeers::reduce_scatter_rows(Tensor all, Counts counts) {
  Tensor own = empty(all.shape().with(0, counts[static_cast<std::size_t>(rank())]), all.dtype(),
                     all.device());
  group_().reduce_scatter(own, all, pieces_of(counts, all.shape())).wait();
  return own;
}

std::int64_t largest(const comm::Group& group, std::int64_t n) {
  std::int64_t most = n;
  for (const std::string& each : group.all_gather_bytes(std::to_string(n)))
    most = std::max<std::int64_t>(most, std::stoll(each));
  return most;
}

void add_blocks(const comm::Group& group, const Tensor& blocks) {
  static_assert(sizeof(double) == sizeof(std::int64_t));
  group.all_reduce(Tensor(blocks.storage(), blocks.storage_offset(), blocks.shape(), DType::i64))
      .wait();
}

}  // namespace ringlet::train
