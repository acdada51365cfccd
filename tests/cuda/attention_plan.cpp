#include "ringlet/cuda/attention_plan.h"

#include <doctest/doctest.h>

#include <set>
#include <utility>
#include <vector>

#include "ringlet/core/tensor/random.h"
#include "ringlet/cuda/attention_bias.h"
#include "warp_emulation.h"

using namespace ringlet;

namespace {

// Random lengths from 0 to `longest`.
std::vector<std::int32_t> some_ends(std::uint32_t sentences, std::uint32_t longest,
                                    std::uint32_t seed) {
  std::vector<std::int32_t> ends{0};
  for (std::uint32_t s = 0; s < sentences; ++s)
    ends.push_back(ends.back() +
                   static_cast<std::int32_t>(philox({{s}}, {{seed, 0}}).word[0] % (longest + 1)));
  return ends;
}

bool inside(cuda::DistanceRange outer, int distance) {
  return outer.low <= distance && distance <= outer.high;
}

}  // namespace

TEST_CASE("every row of every head of every sentence has one tile") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const std::vector<std::int32_t> ends = some_ends(1 + seed % 9, seed % 3 ? 40 : 300, seed);
    AttentionShape shape{};
    shape.cu_seqlens = ends.data();
    shape.sentences = static_cast<std::int64_t>(ends.size()) - 1;
    shape.tokens = ends.back();
    shape.heads = 1 + seed % 3;
    shape.head_size = 8;
    std::set<std::pair<std::int64_t, std::int64_t>> seen;  // head, token
    const std::int64_t items = cuda::attention_slots(shape) * shape.heads;
    for (std::int64_t index = 0; index < items; ++index) {
      const cuda::AttentionItem item = cuda::attention_item(shape, index);
      CHECK(item.index == index);
      for (int row = 0; row < item.rows; ++row) {
        REQUIRE(seen.insert({item.head, item.first + item.begin + row}).second);
        REQUIRE(item.begin + row < item.length);
      }
    }
    CHECK(static_cast<std::int64_t>(seen.size()) == shape.tokens * shape.heads);
    for (int warps : {1, 4, 5}) {
      CHECK(cuda::attention_blocks(shape, warps) * warps >= items);
      CHECK((cuda::attention_blocks(shape, warps) - 1) * warps < items);
    }
  }
}

TEST_CASE("nothing to attend to takes no warp") {
  const std::int32_t ends[] = {0, 0, 0};
  AttentionShape shape{};
  shape.cu_seqlens = ends;
  shape.sentences = 2;
  shape.heads = 12;
  CHECK(cuda::attention_blocks(shape, 4) == 0);
}

TEST_CASE("where sentences lie is found past the 32-bit range of elements") {
  const std::int32_t ends[] = {0, 2'000'000'000, 2'000'000'020};
  AttentionShape shape{};
  shape.cu_seqlens = ends;
  shape.sentences = 2;
  shape.tokens = 2'000'000'020;
  shape.heads = 12;
  shape.head_size = 64;
  const cuda::AttentionItem item =
      cuda::attention_item(shape, 12 * cuda::attention_slots(shape) - 1);
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

TEST_CASE("every distance belongs to its bucket alone") {
  for (cuda::DistanceRange range :
       {cuda::DistanceRange{-cuda::kMiddle, cuda::kMiddle}, {-31, 15}, {-15, 111}, {100, 159}})
    for (int bucket = 0; bucket < kRelativeBuckets; ++bucket) {
      const cuda::DistanceRange own = cuda::distances_of(bucket, range);
      for (int d = range.low; d <= range.high; ++d)
        CHECK(inside(own, d) == (relative_position_bucket(d) == bucket));
      CHECK((own.low > own.high || (inside(range, own.low) && inside(range, own.high))));
    }
}
