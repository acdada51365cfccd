// The table of products' algorithms: which products it names, and which algorithm runs.
#include <doctest/doctest.h>

#include <cstring>

#include "on_gpu.h"
#include "ringlet/cuda/product_algorithm.h"

using namespace ringlet;
using namespace ringlet::cuda;

namespace {

constexpr std::int64_t kM = 64, kN = 96, kK = 128;

ProductKey key_of(DType dtype, bool trans_b = false, bool bias = false) {
  MatmulArgs args{};
  args.batch = 1, args.m = kM, args.n = kN, args.k = kK;
  args.trans_b = trans_b;
  args.dtype = args.a_dtype = args.b_dtype = args.out_dtype = dtype;
  if (bias) args.bias = &args;
  return {plan_matmul(args, true),
          Device{DeviceType::cuda, 0},
          MatmulPrecision::highest,
          kMostAlignment,
          kMostAlignment,
          kMostAlignment,
          kMostAlignment};
}

bool same(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

}  // namespace

TEST_CASE("cuda: a product's name has its transpositions, sizes, dtypes and epilogue") {
  CHECK(product_name(key_of(DType::bf16)) == "NN 64x96x128 bf16 to bf16");
  CHECK(product_name(key_of(DType::bf16, true, true)) == "NT 64x96x128 bf16 to bf16, bias");
  ProductKey weight = key_of(DType::bf16);
  weight.plan.right.transposed = weight.plan.makes_sums = true;
  weight.plan.product = DType::f32;
  CHECK(product_name(weight) == "TN 64x96x128 bf16 to f32, sums");
}

TEST_CASE("cuda: products that the table never has are without a name") {
  CHECK(product_name(key_of(DType::f32)).empty());
  const auto changed = [](auto change) {
    ProductKey key = key_of(DType::bf16);
    change(key);
    return product_name(key);
  };
  CHECK(changed([](ProductKey& key) { key.plan.batch = 2; }).empty());
  CHECK(changed([](ProductKey& key) { key.plan.beta = 1; }).empty());
  CHECK(changed([](ProductKey& key) { key.left_alignment = 8; }).empty());
  CHECK(changed([](ProductKey& key) { key.vector_alignment = 8; }).empty());
}

TEST_CASE("cuda: a table has the rows of one GPU and one version of cuBLASLt") {
  const TunedProduct rows[]{{"a GPU", 13, "NN 1x1x1", {{1}}},
                            {"a GPU", 14, "NN 1x1x1", {{2}}},
                            {"another", 13, "NN 1x1x1", {{3}}},
                            {"a GPU", 13, "NN 2x2x2", {{4, 5}}}};
  const TunedAlgorithms found = tuned_for(rows, "a GPU", 13);
  REQUIRE(found.size() == 2);
  CHECK(same(found.at("NN 1x1x1"), {{1}}));
  CHECK(same(found.at("NN 2x2x2"), {{4, 5}}));
  CHECK(tuned_for(rows, "a GPU", 15).empty());
}

TEST_CASE("cuda: a product runs by the table's algorithm, else by the library's first choice") {
  if (skipped()) return;
  for (const bool bias : {false, true}) {
    const ProductKey key = key_of(DType::bf16, false, bias), wide = key_of(DType::f64);
    const ProductDescriptors product(key);
    const auto choices = product.choices(key, 8);
    REQUIRE(choices.size() > 1);
    const auto chosen = [&](const TunedAlgorithms& tuned) {
      const auto found = product.algorithm(key, tuned);
      REQUIRE(found);
      return *found;
    };
    const std::string name = product_name(key);
    const auto tuned = chosen({{name, choices.back().algo}});
    CHECK(same(tuned.algo, choices.back().algo));
    CHECK(tuned.workspaceSize == choices.back().workspaceSize);
    CHECK(same(chosen({}).algo, choices[0].algo));
    CHECK(same(chosen({{"NN 1x1x1 bf16 to bf16", choices.back().algo}}).algo, choices[0].algo));
    // An algorithm for f64, which the library refuses here.
    const auto refused = ProductDescriptors(wide).choices(wide, 1).at(0).algo;
    CHECK(same(chosen({{name, refused}}).algo, choices[0].algo));
  }
}
