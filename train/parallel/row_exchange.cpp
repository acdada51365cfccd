#include "ringlet/train/parallel/row_exchange.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ringlet/comm/rows.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::train {
namespace {

using Rows = std::vector<std::int32_t>;  // ascending

/// The sums of `gathered` (rows of all ranks, C), for RowTables::Finish.
void add_rows(Tensor& out, std::int64_t begin, const Tensor& gathered,
              const std::vector<Rows>& rows) {
  const std::int64_t columns = gathered.size(1), end = begin + out.numel();
  const auto element = static_cast<std::int64_t>(itemsize(out.dtype()));
  const Tensor none = zeros({columns}, out.dtype(), out.device());
  std::map<std::int32_t, std::vector<const void*>> parts;  // of a row, by rank
  const std::byte* next = gathered.bytes();
  std::byte* const to = out.mutable_bytes();
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    for (const std::int32_t row : rows[rank]) {
      auto& of_row = parts.try_emplace(row, rows.size(), none.bytes()).first->second;
      of_row[rank] = std::exchange(next, next + columns * element);
    }
  for (auto& [row, of_row] : parts) {
    const std::int64_t start = row * columns;
    const std::int64_t first = std::max(start, begin), last = std::min(start + columns, end);
    if (first >= last) continue;
    for (const void*& part : of_row)
      part = static_cast<const std::byte*>(part) + (first - start) * element;
    combine_kernel({to + (first - begin) * element, of_row.data(), static_cast<int>(of_row.size()),
                    last - first, CombineOp::sum, 1, out.dtype()},
                   out.device());
  }
}

}  // namespace

void RowTables::note(const autograd::VariableState& table, const Tensor& rows) {
  if (rows.device().type != DeviceType::cpu) return;  // reading them would make the host wait
  Rows& known = rows_[&table];
  const Rows more = rows.to_vector<std::int32_t>();
  known.insert(known.end(), more.begin(), more.end());
}

RowTables::Finish RowTables::exchange(const autograd::VariableState& table,
                                      const comm::Group& group) {
  const Tensor& grad = table.grad_buffer;
  const bool on_cpu = grad.device().type == DeviceType::cpu;
  if (group.size() == 1 || !on_cpu || whole_.contains(&table)) return {};
  const auto found = rows_.find(&table);
  Rows mine = found == rows_.end() ? Rows() : found->second;
  std::ranges::sort(mine);
  mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
  Rows message{!table.dense};
  message.insert(message.end(), mine.begin(), mine.end());
  std::vector<Rows> rows;  // of each rank
  comm::Pieces pieces;
  std::int64_t sent = 0;
  const std::int64_t columns = grad.size(1);
  for (const Rows& each : comm::all_gather_values(group, message)) {
    if (each[0] == 0) whole_.insert(&table);
    const auto count = std::ssize(rows.emplace_back(each.begin() + 1, each.end()));
    pieces.push_back({sent * columns, count * columns});
    sent += count;
  }
  if (whole_.contains(&table) || sent >= grad.size(0)) return {};

  const Tensor gathered = empty({sent, columns}, grad.dtype(), grad.device());
  const std::int64_t first = pieces[static_cast<std::size_t>(group.rank())].offset / columns;
  Tensor part = gathered.slice(first, first + std::ssize(mine));
  part.copy_(index_select(grad, 0, tensor(mine, {std::ssize(mine)}, grad.device())));
  return [gathered, rows, work = group.all_gather(gathered, part, pieces)](Tensor out,
                                                                           std::int64_t begin) {
    work.wait();
    add_rows(out, begin, gathered, rows);
  };
}

}  // namespace ringlet::train
