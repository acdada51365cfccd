// The operands' positions under broadcasting, compared with a loop over all dimensions.
#include "ringlet/cuda/strided.h"

#include <doctest/doctest.h>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::cuda {
namespace {

// A tensor of its own indices.
Tensor own_places(const Shape& shape) {
  Tensor x = zeros(shape, DType::i64);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.mutable_data<std::int64_t>()[i] = i;
  return x;
}

void check_places(const Shape& a, const Shape& b) {
  const Shape out = broadcast(a, b);
  const BroadcastPlan plan = plan_broadcast(out, {&a, &b});
  const auto places = strided<2>(plan);
  REQUIRE(places.numel == out.numel());
  const Tensor zero = zeros(out, DType::i64);
  const Tensor from_a = add(own_places(a), zero), from_b = add(own_places(b), zero);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    std::int64_t offset[2];
    places.offsets(i, offset);
    CHECK(offset[0] == from_a.data<std::int64_t>()[i]);
    CHECK(offset[1] == from_b.data<std::int64_t>()[i]);
  }
}

TEST_CASE("cuda strided: operands of a broadcast") {
  check_places({}, {});
  check_places({7}, {7});
  check_places({7}, {});
  check_places({3, 1, 5}, {1, 4, 1});
  check_places({3, 4, 5}, {5});
  check_places({3, 4, 5}, {4, 1});
  check_places({2, 1, 3, 1, 2}, {2, 5, 1, 4, 1});
  check_places({2, 3, 4}, {2, 3, 4});
}

TEST_CASE("cuda strided: places beyond 32 bits") {
  Strided<1> places;
  places.add(3, {std::int64_t{1} << 33});
  places.add(std::int64_t{1} << 32, {2});
  std::int64_t offset[1];
  places.offsets((std::int64_t{2} << 32) + 5, offset);
  CHECK(offset[0] == (std::int64_t{1} << 34) + 10);
}

}  // namespace
}  // namespace ringlet::cuda
