// Repeatedly taking the first element after the previous one, as in CUDA's topk, equals the CPU's
// result.
#include "ringlet/cuda/ordering.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "ringlet/core/ops/topk.h"

namespace ringlet::cuda {
namespace {

template <bool smallest>
std::vector<std::int64_t> order_of(const std::vector<float>& x) {
  std::vector<std::int64_t> places;
  Placed<float> before{0, -1};
  for (std::size_t k = 0; k < x.size(); ++k) {
    Placed<float> best{0, -1};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Placed<float> e{x[i], static_cast<std::int64_t>(i)};
      const bool left = before.place < 0 || comes_before<smallest>(before, e);
      if (left && comes_before<smallest>(e, best)) best = e;
    }
    places.push_back(best.place);
    before = best;
  }
  return places;
}

TEST_CASE("cuda topk: the order is the CPU's, with equals, infinities and NaN") {
  const std::vector<float> x = {1,         3, -2,       NAN, 3,     0.0f, -0.0f, INFINITY,
                                -INFINITY, 5, INFINITY, NAN, 1e-9f, 3,    -2};
  const auto n = static_cast<std::int64_t>(x.size());
  Tensor t = empty({n});
  for (std::int64_t i = 0; i < n; ++i) t.mutable_data<float>()[i] = x[static_cast<std::size_t>(i)];
  const std::vector<std::int64_t> largest = order_of<false>(x);
  const TopK expected = topk(t, n);
  for (std::int64_t i = 0; i < n; ++i)
    CHECK(largest[static_cast<std::size_t>(i)] == expected.indices.data<std::int64_t>()[i]);
  CHECK(order_of<true>(x)[0] == argmin(t, 0).data<std::int64_t>()[0]);
}

}  // namespace
}  // namespace ringlet::cuda
