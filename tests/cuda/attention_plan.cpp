#include "ringlet/cuda/attention_plan.h"

#include <doctest/doctest.h>

#include <vector>

#include "ringlet/core/ops/relative_position.h"

using namespace ringlet;

namespace {

// How many tiles of a rule's slots have each row of these sentences, as far as `takes` the tile.
template <int kRows, class Takes>
void count_rows(std::vector<int>& found, const AttentionShape& shape, const cuda::Slots& slots,
                Takes takes) {
  const std::int32_t* ends = shape.cu_seqlens;
  for (int slot = 0; slot < slots.count; ++slot) {
    int s = 0;
    while (s + 1 < shape.sentences && cuda::first_slot(ends[s + 1], s + 1, slots.rule) <= slot) ++s;
    const cuda::AttentionItem item =
        cuda::attention_item<kRows>(shape, 0, slot, {s, ends[s], ends[s + 1]}, slots.rule);
    if (item.rows > 0 && takes(item))
      for (int row = 0; row < item.rows; ++row)
        ++found[static_cast<std::size_t>(item.lse + item.begin + row)];
  }
}

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
      cuda::attention_item(shape, 11, cuda::attention_slots(shape) - 1, {1, ends[1], ends[2]});
  CHECK(item.head == 11);
  CHECK(item.lse + item.begin == 11 * shape.tokens + 2'000'000'016);
  CHECK(item.rows == 4);
  CHECK(item.part(shape, 2) == std::int64_t{2'000'000'000} * 2304 + 35 * 64);
}

TEST_CASE("each row of a sentence belongs to one tile, of a warp or of a block") {
  for (const std::vector<std::int32_t>& lengths :
       std::vector<std::vector<std::int32_t>>{{64},
                                              {65},
                                              {1, 65, 2, 3, 66, 1, 1, 129},
                                              {16, 0, 33, 64, 193, 7, 0},
                                              {384, 383, 65, 1},
                                              {0, 0, 127, 128, 500}}) {
    for (const std::int32_t attended : {1, 64, 65, 1000}) {
      std::vector<std::int32_t> ends{0}, real;
      for (const std::int32_t length : lengths) {
        ends.push_back(ends.back() + length);
        real.push_back(length < attended ? length : attended);
      }
      AttentionShape shape{};
      shape.cu_seqlens = ends.data(), shape.lengths = real.data();
      shape.sentences = static_cast<std::int64_t>(lengths.size());
      shape.tokens = ends.back(), shape.heads = 1, shape.head_size = 64;
      const cuda::MixedGrid grid = cuda::mixed_grid(shape, 4);
      std::vector<int> found(static_cast<std::size_t>(shape.tokens));
      if (grid.blocks > 0)
        count_rows<cuda::kBlockRows>(found, shape, grid.of_blocks,
                                     [](const auto& item) { return !cuda::is_for_warp(item); });
      count_rows<cuda::kTileRows>(found, shape, grid.of_warps,
                                  [](const auto& item) { return cuda::is_for_warp(item); });
      CHECK(found == std::vector<int>(found.size(), 1));
    }
  }
}

TEST_CASE("the distances that a tile reads have the buckets of its pairs, however far apart") {
  for (int query : {0, 16, 160, 1600, 100'000})
    for (int key = 0; key < 2000; key += 16) {
      const int tile = cuda::tile_distance(key, query);
      const cuda::DistanceRange range{cuda::tile_distance(0, query) - 15,
                                      cuda::tile_distance(key, query) + 15};
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
  CHECK(cuda::tile_distance(0, 1600) - 15 == -cuda::kMiddle);
  CHECK(cuda::kMiddle + cuda::tile_distance(1600, 0) + 15 < cuda::kDistances);
}
