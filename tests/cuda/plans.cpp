// How kernels divide their work, where no case that runs shows it: beyond 32 bits, within shared
// memory, over a large device. The tests of each op run its kernels on the emulated GPU.
#include <doctest/doctest.h>

#include <utility>

#include "ringlet/cuda/convolution_tile.h"
#include "ringlet/cuda/layer_norm_plan.h"
#include "ringlet/cuda/matmul_plan.h"
#include "ringlet/cuda/reduce_plan.h"
#include "ringlet/cuda/scatter_places.h"
#include "ringlet/cuda/sorted_runs.h"
#include "ringlet/cuda/strided.h"
#include "ringlet/cuda/words.h"

namespace ringlet::cuda {
namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 31;

MatmulPlan plan_of(DType in, DType out, bool bias, bool sums, bool epilogues = true,
                   bool wide_a = false, std::int64_t k = 16) {
  float numbers[8] = {};
  MatmulArgs args{};
  args.batch = 1, args.m = 3, args.n = 8, args.k = k;
  args.dtype = args.a_dtype = args.b_dtype = in;
  if (wide_a) args.a_dtype = DType::f32;
  args.out_dtype = out;
  if (bias) args.bias = numbers;
  if (sums) args.a_sums = numbers;
  return plan_matmul(args, epilogues);
}

}  // namespace

TEST_CASE("cuda: a bias is added to sums of f32, by the library or behind an f32 product") {
  const auto plan = [](DType in, DType out, bool epilogues = true) {
    return plan_of(in, out, true, false, epilogues);
  };
  const auto bf16 = plan(DType::bf16, DType::bf16);
  CHECK(bf16.product == DType::bf16);
  for (const auto& in_library : {plan(DType::f32, DType::f32), bf16}) {
    CHECK(in_library.adds_bias);
    CHECK_FALSE(in_library.finish);
    CHECK_FALSE(in_library.scratch);
  }
  for (const auto& behind :
       {plan(DType::bf16, DType::bf16, false), plan(DType::f32, DType::bf16)}) {
    CHECK_FALSE(behind.adds_bias);
    CHECK(behind.scratch);
    CHECK(behind.finish);
    CHECK(behind.product == DType::f32);
  }
  CHECK_FALSE(plan_of(DType::bf16, DType::bf16, false, false).finish);
  CHECK_FALSE(plan(DType::f64, DType::f64).adds_bias);
  // cuBLASLt rounds twice where rows of bf16 do not begin at multiples of 16 bytes.
  const auto odd = [](DType dtype) { return plan_of(dtype, dtype, true, false, true, false, 33); };
  CHECK_FALSE(odd(DType::bf16).adds_bias);
  CHECK(odd(DType::f32).adds_bias);
}

TEST_CASE("cuda: the library makes sums that it does not round, of numbers that nothing rounded") {
  const auto makes = [](DType in, DType out, bool epilogues = true, bool wide_a = false) {
    return plan_of(in, out, false, true, epilogues, wide_a).makes_sums;
  };
  CHECK(makes(DType::bf16, DType::f32));
  CHECK(plan_of(DType::bf16, DType::f32, false, true).has_epilogue());
  CHECK_FALSE(makes(DType::bf16, DType::f32, false));
  CHECK_FALSE(makes(DType::f32, DType::f32));  // may be TF32
  CHECK_FALSE(makes(DType::f64, DType::f64));
  CHECK_FALSE(makes(DType::bf16, DType::bf16));             // the sums would be bf16
  CHECK_FALSE(makes(DType::bf16, DType::f32, true, true));  // f32 rounded to bf16
  CHECK_FALSE(plan_of(DType::bf16, DType::f32, false, false).makes_sums);
}

TEST_CASE("cuda: LayerNorm's backward shares out every row and column within its limits") {
  for (int pack : {4, 8})  // f32, bf16
    for (std::int64_t blocks : {0, 1, 50, 263, 264, 100000})
      for (std::int64_t columns = 1; columns <= kPlanColumns; ++columns) {
        const LayerNormPlan plan = layer_norm_plan(blocks, columns, pack);
        CAPTURE(pack);
        CAPTURE(blocks);
        CAPTURE(columns);
        REQUIRE(plan.threads % 32 == 0);
        REQUIRE(plan.threads * pack >= columns);
        REQUIRE((plan.threads - 32) * pack < columns);
        REQUIRE(plan.groups * plan.threads <= kPlanThreads);
        REQUIRE(plan.rows() * plan.groups == kLayerNormBlock);
        REQUIRE(plan.rows() % kPlanRows == 0);
        REQUIRE((blocks < kPlanManyBlocks || plan.groups == 1));
      }
  CHECK(layer_norm_plan(50, 768, 8).groups == 4);
  CHECK(layer_norm_plan(50, 768, 4).groups == 2);
  CHECK(layer_norm_plan(29, 768, 8).parts(911) == 114);  // blocks of threads for 132 SMs
}

TEST_CASE("cuda: reductions have no empty chunk; rows of a model run in one, long ones fill it") {
  for (bool rows : {true, false})
    for (std::int64_t n : {0, 1, 7, 63, 64, 255, 256, 257, 1000, 1600, 16385, 100003, 1 << 30}) {
      const ReducePlan plan = plan_reduce(n, rows);
      CAPTURE(rows);
      CAPTURE(n);
      CHECK(plan.chunks * plan.length >= n);
      CHECK((plan.chunks - 1) * plan.length <= std::max<std::int64_t>(n - 1, 0));
      CHECK(plan.length % (rows ? 256 : kReduceRows) == 0);
      CHECK(plan.chunks <= (rows ? 4096 : 1024));
    }
  CHECK(plan_reduce(768, true).chunks == 1);
  CHECK(plan_reduce(109'000'000, true).chunks > 4000);
  CHECK(plan_reduce(1600, false).chunks == 25);
  CHECK(plan_reduce(1 << 20, false).chunks == 1024);
}

TEST_CASE("cuda: pieces cover a convolution's inner dimension, and together fill the device once") {
  for (std::int64_t inner : {1, 16, 511, 1024, 86528, 73728})
    for (std::int64_t columns : {9, 288, 40000}) {
      const ConvSplit split = split_inner(64, columns, inner);
      CHECK(split.length % kConvDepth == 0);
      CHECK(split.count * split.length >= inner);
      CHECK((split.count - 1) * split.length < inner);
      CHECK(split.count * conv_tiles(64, columns) <=
            std::max<std::int64_t>(528, conv_tiles(64, columns)));
    }
}

TEST_CASE("cuda: a scatter sorts as much at once as its numbers can tell apart") {
  const auto block = [](std::int64_t outer, std::int64_t n, std::int64_t inner,
                        std::int64_t out_n) {
    const ScatterBlock found = scatter_block(outer, n, inner, out_n);
    return std::pair(found.outers, found.inners);
  };
  CHECK(block(10, 5, 3, 7) == std::pair(10l, 3l));
  CHECK(block(kMany, kMany / 8, 3, 1) == std::pair(2l, 3l));  // 7 columns of 2^28 elements
  CHECK(block(2, kMany / 8, 9, 1) == std::pair(1l, 7l));
  CHECK(block(1, 1, 1000, kMany) == std::pair(1l, 1l));      // keys to 2^31, and one more
  CHECK(block(1, 1, 1000, kMany - 1) == std::pair(1l, 2l));  // to 2^32 - 2
  CHECK(block(1, kMany, 1000, 1) == std::pair(0l, 0l));
  CHECK(block(1, 1, 1000, 2 * kMany - 1) == std::pair(0l, 0l));
}

TEST_CASE("cuda: keys are sorted by as many bits as they have") {
  for (const auto& [largest, bits] :
       {std::pair(0, 1), {1, 1}, {2, 2}, {30527, 15}, {32767, 15}, {32768, 16}, {2147483647, 31}})
    CHECK(key_bits(largest) == bits);
}

TEST_CASE("cuda: the word of a copy is the widest that divides all, and places have 64 bits") {
  alignas(16) char memory[32];
  CHECK(WidestWord().fits(memory).fits(64).nbytes() == 16);
  CHECK(WidestWord().fits(memory).fits(24).nbytes() == 8);
  CHECK(WidestWord().fits(memory + 4).fits(64).nbytes() == 4);
  CHECK(WidestWord().fits(memory + 1).fits(64).nbytes() == 1);
  Strided<1> places;
  places.add(3, {4 * kMany});
  places.add(2 * kMany, {2});
  std::int64_t offset[1];
  places.offsets(4 * kMany + 5, offset);
  CHECK(offset[0] == 8 * kMany + 10);
}

}  // namespace ringlet::cuda
