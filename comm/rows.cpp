#include "ringlet/comm/rows.h"

#include <numeric>

namespace ringlet::comm {
namespace {

/// Each rank's rows as elements of the joined tensor.
Pieces pieces_of_rows(std::span<const std::int64_t> counts, const Shape& shape) {
  const std::int64_t width = shape.without(0).numel();
  Pieces pieces;
  std::int64_t offset = 0;
  for (const std::int64_t count : counts) {
    pieces.push_back({offset, count * width});
    offset += count * width;
  }
  return pieces;
}

}  // namespace

std::vector<std::int64_t> all_gather_count(const Group& group, std::int64_t count) {
  if (group.size() == 1) return {count};
  const std::vector<std::int64_t> one(static_cast<std::size_t>(group.size()), 1);
  return all_gather_rows(group, tensor(std::vector{count}, {1}, Device{}), one)
      .to_vector<std::int64_t>();
}

Tensor all_gather_rows(const Group& group, const Tensor& rows,
                       std::span<const std::int64_t> counts) {
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  Tensor all = empty(rows.shape().with(0, total), rows.dtype(), rows.device());
  group.all_gather(all, rows, pieces_of_rows(counts, rows.shape())).wait();
  return all;
}

Tensor reduce_scatter_rows(const Group& group, const Tensor& all,
                           std::span<const std::int64_t> counts) {
  const std::int64_t rows = counts[static_cast<std::size_t>(group.rank())];
  Tensor own = empty(all.shape().with(0, rows), all.dtype(), all.device());
  group.reduce_scatter(own, all, pieces_of_rows(counts, all.shape())).wait();
  return own;
}

void all_reduce_filled(const Group& group, const Tensor& table) {
  if (group.size() == 1) return;
  const bool doubles = table.dtype() == DType::f64;
  if (!doubles) RINGLET_CHECK_EQ(table.dtype(), DType::f32, "[all_reduce_filled] a table of");
  // As integers: adding zeros changes no bit, not even the sign of a zero.
  group
      .all_reduce(Tensor(table.storage(), table.storage_offset(), table.shape(),
                         doubles ? DType::i64 : DType::i32))
      .wait();
}

}  // namespace ringlet::comm
