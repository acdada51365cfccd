// Which elements of a source meet at one place of a scatter's output: the rules that keep sums in
// the source's order without atomic sums.
#pragma once

#include "ringlet/cuda/divider.h"
#include "ringlet/cuda/index_view.h"

namespace ringlet::cuda {

/// Element (o, j, i) of a source (outer, n, inner) goes to (o, index, i) of (outer, out_n, inner).
/// With whole_rows the index is (n), the same for all o and i.
struct ScatterPlaces {
  IndexView index;
  bool whole_rows;
  std::int64_t out_n;
  Divider n, inner;

  std::int64_t slots(std::int64_t outer) const {
    return whole_rows ? out_n : outer * out_n * inner.divisor();
  }
};

/// One element of the source.
struct Scattered {
  std::int64_t o, j, i;
  std::int64_t index;  // -1 where it is out of range: the element goes nowhere

  /// Its place in the output.
  RINGLET_HOST_DEVICE std::int64_t place(const ScatterPlaces& p) const {
    return (o * p.out_n + index) * p.inner.divisor() + i;
  }
  /// Where its first and last occurrence are noted: for each place, or for each whole row.
  RINGLET_HOST_DEVICE std::int64_t slot(const ScatterPlaces& p) const {
    return p.whole_rows ? index : place(p);
  }
};

/// Element `at` of the source.
RINGLET_HOST_DEVICE Scattered scattered(const ScatterPlaces& p, std::int64_t at) {
  const Division row = divide(at, p.inner);
  const Division outer = divide(row.quotient, p.n);
  const std::int64_t index = p.index[p.whole_rows ? outer.remainder : at];
  return {outer.quotient, outer.remainder, row.remainder,
          0 <= index && index < p.out_n ? index : -1};
}

/// Adds to `total` what elements (o, j, i) .. (o, last, i) bring to e's place, in order;
/// add(total, at) adds source element `at`.
template <class S, class Add>
RINGLET_HOST_DEVICE S add_in_order(const ScatterPlaces& p, const Scattered& e, std::int64_t last,
                                   S total, Add add) {
  for (std::int64_t j = e.j; j <= last; ++j) {
    const std::int64_t at = (e.o * p.n.divisor() + j) * p.inner.divisor() + e.i;
    if (p.index[p.whole_rows ? j : at] == e.index) total = add(total, at);
  }
  return total;
}

}  // namespace ringlet::cuda
