// Scattering as CUDA does it, element by element on the host and in any order: the first element of
// each place adds what follows. The bits are those of the CPU, which goes in the source's order.
#include "ringlet/cuda/scatter_places.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/random.h"

namespace ringlet::cuda {
namespace {

struct Found {
  std::vector<std::int64_t> first, last;
};

Found occurrences(const ScatterPlaces& places, std::int64_t slots, std::int64_t n) {
  Found found{std::vector<std::int64_t>(static_cast<std::size_t>(slots), INT64_MAX),
              std::vector<std::int64_t>(static_cast<std::size_t>(slots), -1)};
  for (std::int64_t at = n - 1; at >= 0; --at) {
    const Scattered e = scattered(places, at);
    const auto slot = static_cast<std::size_t>(e.slot(places));
    found.first[slot] = std::min(found.first[slot], e.j);
    found.last[slot] = std::max(found.last[slot], e.j);
  }
  return found;
}

Tensor random_index(const Shape& shape, std::int64_t size, DType dtype) {
  const Tensor u = uniform(shape, 0, static_cast<double>(size));
  Tensor index = empty(shape, dtype);
  for (std::int64_t i = 0; i < u.numel(); ++i) {
    const auto value = static_cast<std::int64_t>(u.data<float>()[i]);
    if (dtype == DType::i64) {
      index.mutable_data<std::int64_t>()[i] = value;
    } else {
      index.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(value);
    }
  }
  return index;
}

// Source (outer, n, inner) into (outer, out_n, inner).
void check_scatter_add(std::int64_t outer, std::int64_t n, std::int64_t inner, std::int64_t out_n,
                       bool whole_rows, DType index_dtype) {
  const Shape shape = whole_rows ? Shape{n} : Shape{outer, n, inner};
  const Tensor index = random_index(shape, out_n, index_dtype);
  const Tensor source = normal({outer, n, inner});
  Tensor out = normal({outer, out_n, inner}), expected = out.clone();
  whole_rows ? index_add_(expected, 1, index, source) : scatter_add_(expected, 1, index, source);

  const ScatterPlaces places{IndexView(index.bytes(), index_dtype), whole_rows, out_n, Divider(n),
                             Divider(inner)};
  ScatterPlaces marked = places;
  if (whole_rows) marked.inner = Divider(1);
  const Found found = occurrences(marked, places.slots(outer), whole_rows ? n : source.numel());
  float* to = out.mutable_data<float>();
  for (std::int64_t at = source.numel() - 1; at >= 0; --at) {
    const Scattered e = scattered(places, at);
    const auto slot = static_cast<std::size_t>(e.slot(places));
    if (found.first[slot] != e.j) continue;
    to[e.place(places)] = add_in_order(
        places, e, found.last[slot], to[e.place(places)],
        [&](float sum, std::int64_t from) { return sum + source.data<float>()[from]; });
  }
  CHECK(std::equal(to, to + out.numel(), expected.data<float>()));
}

TEST_CASE("cuda scatter_add: sums are in the source's order") {
  check_scatter_add(1, 50, 1, 7, false, DType::i64);
  check_scatter_add(3, 40, 5, 6, false, DType::i32);
  check_scatter_add(1, 60, 9, 11, true, DType::i64);
  check_scatter_add(4, 30, 3, 200, true, DType::i32);
  check_scatter_add(2, 1, 4, 3, false, DType::i64);
}

TEST_CASE("cuda scatter: an index out of range goes nowhere") {
  const std::int32_t index[] = {2, -1, 5, 0};
  const ScatterPlaces places{IndexView(index, DType::i32), true, 5, Divider(4), Divider(1)};
  CHECK(scattered(places, 0).index == 2);
  CHECK(scattered(places, 1).index == -1);
  CHECK(scattered(places, 2).index == -1);
  CHECK(scattered(places, 3).index == 0);
}

}  // namespace
}  // namespace ringlet::cuda
