#include "ringlet/train/parallel/row_exchange.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ringlet/comm/rows.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::train {

RowExchange::RowExchange(Tensor table, std::vector<std::int32_t> rows, bool known,
                         const comm::Group& group)
    : table_(std::move(table)) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::vector<std::int32_t> message{known};
  message.insert(message.end(), rows.begin(), rows.end());
  agree(message, group);
  if (!sparse_) return;

  const std::int64_t columns = table_.size(1);
  comm::Pieces pieces;
  std::int64_t end = 0;
  for (const auto& of_rank : rows_) {
    const auto count = static_cast<std::int64_t>(of_rank.size()) * columns;
    pieces.push_back({end, count});
    end += count;
  }
  gathered_ = empty({end / columns, columns}, table_.dtype(), table_.device());
  const std::int64_t first = pieces[static_cast<std::size_t>(group.rank())].offset / columns;
  Tensor mine = gathered_.slice(first, first + static_cast<std::int64_t>(rows.size()));
  mine.copy_(index_select(table_, 0, tensor(rows, {std::ssize(rows)}, table_.device())));
  work_ = group.all_gather(gathered_, mine, pieces);
}

void RowExchange::agree(const std::vector<std::int32_t>& mine, const comm::Group& group) {
  std::int64_t sent = 0;
  for (const std::vector<std::int32_t>& message : comm::all_gather_values(group, mine)) {
    known_ = known_ && message[0] == 1;
    sent += std::ssize(rows_.emplace_back(message.begin() + 1, message.end()));
  }
  sparse_ = known_ && sent < table_.size(0);
}

void RowExchange::finish(Tensor out, std::int64_t begin) {
  work_.wait();
  const std::int64_t columns = table_.size(1), end = begin + out.numel();
  const auto element = static_cast<std::int64_t>(itemsize(table_.dtype()));
  const Tensor none = zeros({columns}, table_.dtype(), table_.device());
  std::map<std::int32_t, std::vector<const void*>> parts;  // of a row, by rank
  const std::byte* next = gathered_.bytes();
  std::byte* const to = out.mutable_bytes();
  for (std::size_t rank = 0; rank < rows_.size(); ++rank)
    for (const std::int32_t row : rows_[rank]) {
      auto& of_row = parts.try_emplace(row, rows_.size(), none.bytes()).first->second;
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

void RowTables::note(const autograd::VariableState& table, const Tensor& rows) {
  if (rows.device().type != DeviceType::cpu) return;  // reading them would make the host wait
  std::vector<std::int32_t>& known = rows_[&table];
  const std::vector<std::int32_t> more = rows.to_vector<std::int32_t>();
  known.insert(known.end(), more.begin(), more.end());
}

std::optional<RowExchange> RowTables::exchange(const autograd::VariableState& table,
                                               const comm::Group& group) {
  const bool on_cpu = table.grad_buffer.device().type == DeviceType::cpu;
  if (group.size() == 1 || !on_cpu || whole_.contains(&table)) return std::nullopt;
  const auto rows = rows_.find(&table);
  RowExchange asked(table.grad_buffer,
                    rows == rows_.end() ? std::vector<std::int32_t>() : rows->second, !table.dense,
                    group);
  if (!asked.known()) whole_.insert(&table);
  if (!asked.sparse()) return std::nullopt;
  return asked;
}

}  // namespace ringlet::train
