#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "ringlet/cuda/layer_norm_plan.h"

using namespace ringlet;

TEST_CASE("cuda: LayerNorm's backward shares out every row and column once, within its limits") {
  for (int pack : {4, 8})  // f32, bf16
    for (std::int64_t blocks : {0, 1, 50, 263, 264, 100000})
      for (std::int64_t columns = 1; columns <= cuda::kPlanColumns; ++columns) {
        const cuda::LayerNormPlan plan = cuda::layer_norm_plan(blocks, columns, pack);
        CAPTURE(pack);
        CAPTURE(blocks);
        CAPTURE(columns);
        REQUIRE(plan.group_threads % 32 == 0);
        REQUIRE(plan.group_threads * pack >= columns);
        REQUIRE((plan.group_threads - 32) * pack < columns);
        REQUIRE(plan.threads() <= cuda::kPlanThreads);
        REQUIRE(plan.rows() * plan.groups == kLayerNormBlock);
        REQUIRE(plan.rows() % cuda::kPlanRows == 0);
        REQUIRE(static_cast<std::size_t>(plan.shared()) * sizeof(float) <= 48 << 10);
        REQUIRE((blocks < cuda::kPlanManyBlocks || plan.groups == 1));
      }
  CHECK(cuda::layer_norm_plan(50, 768, 8).groups == 4);
  CHECK(cuda::layer_norm_plan(50, 768, 4).groups == 2);
  CHECK(cuda::layer_norm_plan(50, 384, 8).groups == 4);
}

TEST_CASE("cuda: LayerNorm's column sums take each bank once, written and read") {
  for (int pack : {4, 8})
    for (std::int64_t columns : {1, 256, 384, 768, 1024}) {
      const cuda::LayerNormPlan plan = cuda::layer_norm_plan(1, columns, pack);
      std::vector<int> used(static_cast<std::size_t>(plan.column_places()));
      for (int column = 0; column < plan.group_threads * pack; ++column)
        ++used.at(static_cast<std::size_t>(plan.column_place(column)));
      CHECK(*std::max_element(used.begin(), used.end()) == 1);
      for (int step : {1, pack}) {  // of 32 threads that read, that write
        std::vector<int> banks(32);
        for (int thread = 0; thread < 32; ++thread)
          ++banks.at(static_cast<std::size_t>(plan.column_place(32 + step * thread) % 32));
        CHECK(banks == std::vector<int>(32, 1));
      }
    }
}

TEST_CASE("cuda: groups exchange row sums in places of their own, two batches apart") {
  for (std::int64_t columns : {1, 256, 384, 768, 1024}) {
    const cuda::LayerNormPlan plan = cuda::layer_norm_plan(1, columns, 8);
    std::vector<int> used(static_cast<std::size_t>(plan.exchange()));
    const int place = 2 * cuda::kPlanRows;
    for (int batch = 0; batch < 2; ++batch)
      for (int group = 0; group < plan.groups; ++group)
        for (int warp = 0; warp < plan.warps(); ++warp)
          for (int i = 0; i < place; ++i)
            ++used.at(
                static_cast<std::size_t>(plan.exchange_place(batch, group) + warp * place + i));
    CHECK(used == std::vector<int>(used.size(), 1));
  }
}
