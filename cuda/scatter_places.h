// Which elements of a source (outer, n, inner) go to one place of a scatter's output (outer, out_n,
// inner). They are sorted by that place, stably, so that a place's run is in the source's order.
#pragma once

#include <cstdint>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/base/host_device.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/cuda/divider.h"
#include "ringlet/cuda/sorted_runs.h"

namespace ringlet::cuda {

/// Indices of i32 or i64.
struct IndexView {
  const void* data;
  bool wide;  // i64, else i32

  IndexView(const void* index, DType dtype) : data(index), wide(dtype == DType::i64) {}
  RINGLET_HOST_DEVICE std::int64_t operator[](std::int64_t at) const {
    return wide ? static_cast<const std::int64_t*>(data)[at]
                : static_cast<const std::int32_t*>(data)[at];
  }
};

/// The kernel of scatter_add_, for use inside other ops. Sums are in the source's order, rounded
/// after each addition; an index out of range adds nothing.
void scatter_add(const ScatterAddArgs& args, Device device);

/// Whole rows are scattered: index (n) is shared by all columns (o, i). Rows are sorted.
struct ScatterRows {
  IndexView index;
  std::int64_t out_n, n, columns;
  Divider inner;

  /// The number of sorted items. Keys are in [0, keys()); an index out of range has key keys() - 1.
  RINGLET_HOST_DEVICE std::int64_t sorted() const { return n; }
  RINGLET_HOST_DEVICE std::int64_t keys() const { return out_n + 1; }
  RINGLET_HOST_DEVICE std::uint32_t key(std::int64_t row) const {
    const std::int64_t to = index[row];
    return static_cast<std::uint32_t>(0 <= to && to < out_n ? to : out_n);
  }
  /// The element of a key, or of a sorted item, in a column.
  RINGLET_HOST_DEVICE std::int64_t out(std::uint32_t key, std::int64_t column) const {
    const Division at = divide(column, inner);
    return (at.quotient * out_n + key) * inner.divisor() + at.remainder;
  }
  RINGLET_HOST_DEVICE std::int64_t source(std::int64_t row, std::int64_t column) const {
    const Division at = divide(column, inner);
    return (at.quotient * n + row) * inner.divisor() + at.remainder;
  }
};

/// Every element has a separate index, (outer, n, inner). The elements of a block of columns are
/// sorted: `outers` whole outer blocks, or `inners` columns of one.
struct ScatterElements {
  IndexView index;
  std::int64_t inner;
  std::int64_t first_outer, first_inner;
  std::int64_t outers;
  Divider out_n, n, inners;
  static constexpr std::int64_t columns = 1;

  RINGLET_HOST_DEVICE std::int64_t sorted() const {
    return outers * n.divisor() * inners.divisor();
  }
  RINGLET_HOST_DEVICE std::int64_t keys() const {
    return outers * out_n.divisor() * inners.divisor() + 1;
  }
  RINGLET_HOST_DEVICE std::uint32_t key(std::int64_t element) const {
    const Division row = divide(element, inners);
    const std::int64_t to = index[source(element)];
    const std::int64_t place =
        (n.quotient(row.quotient) * out_n.divisor() + to) * inners.divisor() + row.remainder;
    return static_cast<std::uint32_t>(0 <= to && to < out_n.divisor() ? place : keys() - 1);
  }
  RINGLET_HOST_DEVICE std::int64_t out(std::uint32_t key, std::int64_t = 0) const {
    return in_whole(key, out_n.divisor());
  }
  RINGLET_HOST_DEVICE std::int64_t source(std::int64_t element, std::int64_t = 0) const {
    return in_whole(element, n.divisor());
  }

 private:
  // Converts a place in the block, with `rows` rows per outer block, to a place in the tensor.
  RINGLET_HOST_DEVICE std::int64_t in_whole(std::int64_t at, std::int64_t rows) const {
    const Division row = divide(at, inners);
    return (first_outer * rows + row.quotient) * inner + first_inner + row.remainder;
  }
};

/// How many elements one sort takes: limited by 31 bits (elements) and 32 bits (keys).
struct ScatterBlock {
  std::int64_t outers, inners;  // 0: one column is already too large
};
inline ScatterBlock scatter_block(std::int64_t outer, std::int64_t n, std::int64_t inner,
                                  std::int64_t out_n) {
  const std::int64_t elements = INT32_MAX / n, keys = (std::int64_t{UINT32_MAX} - 1) / out_n;
  const std::int64_t columns = elements < keys ? elements : keys;
  if (columns < inner) return {columns > 0 ? 1 : 0, columns};
  return {columns / inner < outer ? columns / inner : outer, inner};
}

/// Sorted elements [begin, end) have one place; empty if no run begins here.
struct ScatterRun {
  std::int64_t begin, end;
  std::int64_t column;
};

/// The run that item `at` of p.sorted() * p.columns begins.
template <class Places>
RINGLET_HOST_DEVICE ScatterRun scatter_run(const Places& p, const Divider& columns,
                                           const std::uint32_t* keys, std::int64_t at) {
  const Division item = divide(at, columns);
  const std::int64_t begin = item.quotient;
  const bool begins = begins_run(keys, begin, p.keys() - 1);
  return {begin, begins ? end_of_run(keys, begin, p.sorted()) : begin, item.remainder};
}

}  // namespace ringlet::cuda
