#include "ringlet/train/parallel/row_exchange.h"

#include <algorithm>
#include <map>

#include "ringlet/comm/rows.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/sum_tree.h"

namespace ringlet::train {
namespace {

/// The sum of those that are defined, into one of them.
Tensor add_by_tree(const std::vector<Tensor>& leaves) {
  const int count = static_cast<int>(leaves.size());
  std::vector<Tensor> waiting;
  for (int leaf = 0; leaf < count; ++leaf) {
    waiting.push_back(leaves[static_cast<std::size_t>(leaf)]);
    for (int more = additions_after(leaf, count); more > 0; --more) {
      const Tensor later = std::move(waiting.back());
      waiting.pop_back();
      Tensor& earlier = waiting.back();
      if (!earlier.defined())
        earlier = later;
      else if (later.defined())
        axpby(earlier, 1, later, 1);
    }
  }
  return waiting.front();
}

}  // namespace

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
  for (std::size_t i = 0; i < rows.size(); ++i)
    mine[static_cast<std::int64_t>(i)].copy_(table_[rows[i]]);
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
  std::map<std::int32_t, std::vector<std::pair<std::size_t, std::int64_t>>> places;  // of a row
  std::int64_t next = 0;
  for (std::size_t rank = 0; rank < rows_.size(); ++rank)
    for (const std::int32_t row : rows_[rank]) places[row].emplace_back(rank, next++);
  for (const auto& [row, of_row] : places) {
    const std::int64_t start = row * columns;
    const std::int64_t first = std::max(start, begin), last = std::min(start + columns, end);
    if (first >= last) continue;
    std::vector<Tensor> parts(rows_.size());  // undefined where a rank does not have the row
    for (const auto& [rank, place] : of_row)
      parts[rank] = gathered_[place].slice(first - start, last - start);
    out.slice(first - begin, last - begin).copy_(add_by_tree(parts));
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
