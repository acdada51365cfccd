// Collectives over rows: each rank has its own number of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

/// The values of each rank, in rank order. Their numbers may differ.
template <class T>
std::vector<std::vector<T>> all_gather_values(const Group& group, const std::vector<T>& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<std::vector<T>> all;
  for (const std::string& bytes : group.all_gather_bytes(
           {reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(T)})) {
    RINGLET_CHECK(bytes.size() % sizeof(T) == 0, "[all_gather] ", bytes.size(),
                  " bytes from a rank, expected a multiple of ", sizeof(T));
    all.emplace_back(bytes.size() / sizeof(T));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(all.back().data()));
  }
  return all;
}

/// `count` of each rank, in rank order.
std::vector<std::int64_t> all_gather_count(const Group& group, std::int64_t count);
/// The rows (counts[rank], ..) of every rank, joined in rank order.
Tensor all_gather_rows(const Group& group, const Tensor& rows,
                       std::span<const std::int64_t> counts);
/// This rank's rows of the sum over the ranks of `all` (sum of counts, ..), which may be
/// overwritten.
Tensor reduce_scatter_rows(const Group& group, const Tensor& all,
                           std::span<const std::int64_t> counts);
/// Every rank has filled some elements of `table` (f32 or f64) and left zeros in the rest; one rank
/// fills each. Gives all elements to all ranks, bit for bit.
void all_reduce_filled(const Group& group, const Tensor& table);

}  // namespace ringlet::comm
