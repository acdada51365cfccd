#include "ringlet/cuda/attention_plan.h"

#include <doctest/doctest.h>

#include "ringlet/cuda/attention_bias.h"

using namespace ringlet;

namespace {

bool inside(cuda::DistanceRange outer, int distance) {
  return outer.low <= distance && distance <= outer.high;
}

}  // namespace

TEST_CASE("where sentences lie is found past the 32-bit range of elements") {
  const std::int32_t ends[] = {0, 2'000'000'000, 2'000'000'020};
  AttentionShape shape{};
  shape.cu_seqlens = ends;
  shape.sentences = 2;
  shape.tokens = 2'000'000'020;
  shape.heads = 12;
  shape.head_size = 64;
  const cuda::AttentionItem item =
      cuda::attention_item(shape, 11, cuda::attention_slots(shape) - 1, 1);
  CHECK(item.head == 11);
  CHECK(item.first + item.begin == 2'000'000'016);
  CHECK(item.rows == 4);
  CHECK(item.part(shape, 2) == std::int64_t{2'000'000'000} * 2304 + 35 * 64);
}

TEST_CASE("the distances that a tile reads have the buckets of its pairs, however far apart") {
  for (std::int64_t query : {0, 16, 160, 1600, 100'000})
    for (std::int64_t key = 0; key < 2000; key += 16) {
      const int tile = cuda::tile_distance(key, query);
      const cuda::DistanceRange range = cuda::tile_distances(0, key, query, query);
      for (int q = 0; q < 16; ++q)
        for (int k = 0; k < 16; ++k) {
          REQUIRE(relative_position_bucket(tile + k - q) ==
                  relative_position_bucket(key + k - query - q));
          REQUIRE(inside(range, tile + k - q));
        }
      const int row = cuda::row_distance(key - query);
      for (int k = 0; k < 32; ++k) {
        REQUIRE(relative_position_bucket(row + k) == relative_position_bucket(key + k - query));
        REQUIRE(inside({-cuda::kMiddle, cuda::kMiddle}, row + k));
      }
    }
  CHECK(cuda::tile_distances(0, 0, 0, 1600).low == -cuda::kMiddle);
  CHECK(cuda::kMiddle + cuda::tile_distances(1600, 1600, 0, 0).high < cuda::kDistances);
}
