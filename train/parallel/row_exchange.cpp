#include "ringlet/train/parallel/row_exchange.h"

#include <algorithm>
#include <cstring>

#include "ringlet/core/ops/elementwise.h"

namespace ringlet::train {

RowExchange::RowExchange(Tensor table, std::vector<std::int32_t> rows, bool known,
                         const comm::Group& group)
    : table_(std::move(table)) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::string message(1, known ? 'k' : 'u');
  message.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(rows[0]));
  sparse_ = agree(message, group);
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

bool RowExchange::agree(const std::string& mine, const comm::Group& group) {
  bool known = true;
  std::int64_t sent = 0;
  for (const std::string& message : group.all_gather_bytes(mine)) {
    known = known && message[0] == 'k';
    std::vector<std::int32_t>& rows = rows_.emplace_back((message.size() - 1) / sizeof(rows[0]));
    std::memcpy(rows.data(), message.data() + 1, message.size() - 1);
    sent += static_cast<std::int64_t>(rows.size());
  }
  return known && sent < table_.size(0);
}

void RowExchange::finish() {
  work_.wait();
  std::vector<bool> begun(static_cast<std::size_t>(table_.size(0)));
  std::int64_t next = 0;
  for (const auto& of_rank : rows_) {
    for (const std::int32_t row : of_rank) {
      Tensor sum = table_[row];
      const Tensor value = gathered_[next++];
      if (begun[static_cast<std::size_t>(row)]) {
        axpby(sum, 1, value, 1);
      } else {
        sum.copy_(value);
        begun[static_cast<std::size_t>(row)] = true;
      }
    }
  }
}

}  // namespace ringlet::train
