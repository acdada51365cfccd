// CUDA's scatter, run by run on the host and in any order. The bits equal those of the CPU, which
// reads the source from its beginning.
#include "ringlet/cuda/scatter_places.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/random.h"

namespace ringlet::cuda {
namespace {

Tensor random_index(const Shape& shape, std::int64_t size, DType dtype) {
  return uniform(shape, 0, static_cast<double>(size)).to(dtype);
}

struct Sizes {
  std::int64_t outer, n, inner, out_n;
};

/// Calls visit(places, run, out, elements) for every run, last first.
template <class Places, class Visit>
void for_runs(const Places& places, Visit visit) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(places.sorted()));
  std::iota(elements.begin(), elements.end(), 0);
  std::stable_sort(elements.begin(), elements.end(),
                   [&](std::int64_t a, std::int64_t b) { return places.key(a) < places.key(b); });
  std::vector<std::uint32_t> keys;
  for (std::int64_t e : elements) keys.push_back(places.key(e));
  for (std::int64_t at = places.sorted() * places.columns - 1; at >= 0; --at) {
    const ScatterRun run = scatter_run(places, Divider(places.columns), keys.data(), at);
    if (run.begin < run.end)
      visit(places, run, places.out(keys[static_cast<std::size_t>(run.begin)], run.column),
            elements);
  }
}

template <class Visit>
void for_row_runs(const Sizes& s, const Tensor& index, Visit visit) {
  for_runs(ScatterRows{IndexView(index.bytes(), index.dtype()), s.out_n, s.n, s.outer * s.inner,
                       Divider(s.inner)},
           visit);
}

/// With blocks of at most `block`.
template <class Visit>
void for_element_runs(const Sizes& s, const Tensor& index, ScatterBlock block, Visit visit) {
  for (std::int64_t o = 0; o < s.outer; o += block.outers)
    for (std::int64_t i = 0; i < s.inner; i += block.inners)
      for_runs(ScatterElements{IndexView(index.bytes(), index.dtype()), s.inner, o, i,
                               std::min(block.outers, s.outer - o), Divider(s.out_n), Divider(s.n),
                               Divider(std::min(block.inners, s.inner - i))},
               visit);
}

/// Sums in the kernel's order.
struct Added {
  Tensor source, out;
  std::int64_t seen = 0;

  template <class Places>
  void operator()(const Places& places, const ScatterRun& run, std::int64_t at,
                  const std::vector<std::int64_t>& elements) {
    float& to = out.mutable_data<float>()[at];
    for (std::int64_t k = run.begin; k < run.end; ++k, ++seen)
      to += source.data<float>()[places.source(elements[static_cast<std::size_t>(k)], run.column)];
  }
};

void check_elements(const Sizes& s, DType index_dtype) {
  const Tensor index = random_index({s.outer, s.n, s.inner}, s.out_n, index_dtype);
  Added added{normal({s.outer, s.n, s.inner}), normal({s.outer, s.out_n, s.inner})};
  const Tensor before = added.out.clone();
  const Tensor expected = scatter_add(before, 1, index, added.source);
  for (const ScatterBlock& block : {ScatterBlock{1, 1}, {1, 2}, {1, s.inner}, {2, s.inner}}) {
    added.out.copy_(before);
    added.seen = 0;
    for_element_runs(s, index, block, std::ref(added));
    CHECK(added.seen == added.source.numel());  // each once
    CHECK(added.out.to_vector() == expected.to_vector());
  }
}

void check_rows(const Sizes& s, DType index_dtype) {
  const Tensor index = random_index({s.n}, s.out_n, index_dtype);
  Added added{normal({s.outer, s.n, s.inner}), normal({s.outer, s.out_n, s.inner})};
  Tensor expected = added.out.clone();
  index_add_(expected, 1, index, added.source);
  for_row_runs(s, index, std::ref(added));
  CHECK(added.seen == added.source.numel());
  CHECK(added.out.to_vector() == expected.to_vector());
}

TEST_CASE("cuda scatter_add: sums are in the source's order, however much is sorted at once") {
  check_elements({1, 50, 1, 7}, DType::i64);
  check_elements({3, 40, 5, 6}, DType::i32);
  check_elements({2, 30, 4, 1}, DType::i32);  // all meet at one place
  check_elements({2, 1, 4, 3}, DType::i64);
  check_rows({1, 60, 9, 11}, DType::i64);
  check_rows({4, 30, 3, 200}, DType::i32);
  check_rows({2, 100, 3, 1}, DType::i64);
}

TEST_CASE("cuda scatter: the last of each place is written") {
  const Sizes s{3, 40, 5, 6};
  const Tensor index = random_index({s.outer, s.n, s.inner}, s.out_n, DType::i32);
  const Tensor source = normal({s.outer, s.n, s.inner});
  Tensor out = zeros({s.outer, s.out_n, s.inner});
  const Tensor expected = scatter(out, 1, index, source);
  for_element_runs(s, index, {1, 2},
                   [&](const ScatterElements& places, const ScatterRun& run, std::int64_t at,
                       const std::vector<std::int64_t>& elements) {
                     const auto last = static_cast<std::size_t>(run.end - 1);
                     out.mutable_data<float>()[at] =
                         source.data<float>()[places.source(elements[last])];
                   });
  CHECK(out.to_vector() == expected.to_vector());
}

TEST_CASE("cuda scatter: an index out of range goes nowhere") {
  const Tensor index = tensor(std::vector<std::int32_t>{2, -1, 5, 0}, {4});
  std::vector<std::int64_t> seen;
  const auto note = [&](const auto&, const ScatterRun& run, std::int64_t at, const auto&) {
    CHECK(run.end == run.begin + 1);
    seen.push_back(at);
  };
  for_row_runs({1, 4, 1, 5}, index, note);
  CHECK(seen == std::vector<std::int64_t>{2, 0});
  for_element_runs({2, 2, 1, 5}, index, {2, 1}, note);
  CHECK(seen == std::vector<std::int64_t>{2, 0, 5, 2});
}

TEST_CASE("cuda scatter: as much is sorted at once as numbers can tell apart") {
  const auto block = [](const Sizes& s) {
    const ScatterBlock found = scatter_block(s.outer, s.n, s.inner, s.out_n);
    return std::pair(found.outers, found.inners);
  };
  const std::int64_t many = std::int64_t{1} << 31;
  CHECK(block({10, 5, 3, 7}) == std::pair(10l, 3l));
  CHECK(block({many, many / 8, 3, 1}) == std::pair(2l, 3l));  // 7 columns of 2^28 elements
  CHECK(block({2, many / 8, 9, 1}) == std::pair(1l, 7l));
  CHECK(block({1, 1, 1000, many}) == std::pair(1l, 1l));      // keys to 2^31, and one more
  CHECK(block({1, 1, 1000, many - 1}) == std::pair(1l, 2l));  // to 2^32 - 2
  CHECK(block({1, many, 1000, 1}) == std::pair(0l, 0l));
  CHECK(block({1, 1, 1000, 2 * many - 1}) == std::pair(0l, 0l));
}

}  // namespace
}  // namespace ringlet::cuda
