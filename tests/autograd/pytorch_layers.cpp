// Products, layers and losses: values and gradients are PyTorch's.
#include <cmath>

#include "pytorch.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/relative_position.h"

using namespace ringlet;
using namespace ringlet::autograd;

namespace {

// The gradient of a column's sum adds one rounding per row.
double rows_of(const Case& c, const std::string& x) { return c.numel(x) / c.columns(x); }

// Sums over the columns of x, and some more roundings.
Bound with_columns(const std::string& x, double fixed, double times = 1, double floor = 0) {
  return Bound([=](const Case& c, const std::string&) { return times * (fixed + c.columns(x)); },
               Bound::always(floor));
}

Row of(const char* name, PoolingMode mode) {
  const Bound value{[](const Case& c, const std::string&) {
    return 1 + rows_of(c, "x");  // at most a sum over the tokens of a sentence, and a division
  }};
  return {name, [=](const Case& c) { return pooling(mode, c.leaf("x"), c.tensor("cu_seqlens")); },
          value, 1};
}

Variable linear_of(const Case& c) { return linear(c.leaf("x"), c.leaf("weight"), c.leaf("bias")); }
Variable linear_gelu_of(const Case& c) {
  return linear_gelu(c.leaf("x"), c.leaf("weight"), c.leaf("bias"));
}
Variable layer_norm_of(const Case& c) {
  const Variable x = c.leaf("x"), weight = c.leaf("weight"), bias = c.leaf("bias");
  if (!c.has("residual")) return layer_norm(x, weight, bias, c.number("eps"));
  return residual_dropout_layer_norm(x, c.leaf("residual"), {}, {}, weight, bias, c.number("eps"));
}
Variable attention_of(const Case& c) {
  const Variable qkv = concat({c.leaf("q"), c.leaf("k"), c.leaf("v")}, 1);
  return attention(qkv, c.leaf("relative_bias"), c.tensor("cu_seqlens"),
                   {c.integer("heads"), {}, {}, {}});
}
// A score's gradient is a difference of two products of grad_y and v, which cancel in a sentence of
// one token.
double score_terms(const Case& c, const std::string& of) {
  if (of == "y" || of == "v") return 0;
  const auto largest = [&](const char* of) {
    double found = 0;
    for (const double x : c.tensor(of).to_vector<double>()) found = std::max(found, std::abs(x));
    return found;
  };
  const double size = c.columns("q") / c.number("heads");
  const double of_score = size * largest("grad_y") * largest("v");
  if (of == "relative_bias") return of_score;
  return of_score * largest(of == "q" ? "k" : "q") / std::sqrt(size);
}
Variable cross_entropy_of(const Case& c) {
  const Variable x = c.leaf("x");
  const double rows = c.has("global_rows") ? c.number("global_rows") : rows_of(c, "x");
  return cross_entropy(x, c.tensor("labels"), rows);
}

}  // namespace

TEST_CASE("products and layers are PyTorch's, and so are their gradients") {
  // Sums of at most 65 products of normal numbers; of at most 37 in a layer, then GELU.
  check({"matmul",
         [](const Case& c) {
           return matmul(c.leaf("a"), c.leaf("b"), {c.name[7] == 't', c.name[8] == 't'});
         },
         65, 65});
  check({"linear", linear_of, 40, 40});
  check({"linear_gelu", linear_gelu_of, 40, 40});

  const Bound of_rows{[](const Case& c, const std::string& of) {
    return of == "weight" ? 8 + rows_of(c, "x") : of == "bias" ? 1 + rows_of(c, "x") : 16;
  }};
  for (const char* op : {"layer_norm", "residual_layer_norm"})
    check({op, layer_norm_of, 8, of_rows});

  // A score sums d products. Its absolute error is the relative error of P, and the gradients sum
  // up to L terms with that error each.
  const Bound of_scores{[](const Case& c, const std::string& of) {
                          const double unit = 16 + c.columns("q") / c.number("heads");
                          return (of == "y" ? 1 : of == "relative_bias" ? 4 : 2) * unit;
                        },
                        score_terms};
  check({"attention", attention_of, of_scores, of_scores});

  // The roundings of a sum of n products grow as its square root here; 27 terms make an output, at
  // most 36 a pixel's gradient, one per output pixel of the batch a weight's.
  const Bound of_pixels{[](const Case& c, const std::string& of) {
    const double channels = static_cast<double>(c.tensor("y").size(1));
    return of == "x" ? 6 : std::sqrt(c.numel("y") / channels);
  }};
  check({"conv2d",
         [](const Case& c) {
           return conv2d(c.leaf("x"), c.leaf("weight"), c.leaf("bias"),
                         {.stride = c.integer("stride"), .padding = c.integer("padding")});
         },
         std::sqrt(28.0), of_pixels});
  check({"max_pool2d", [](const Case& c) { return max_pool2d(c.leaf("x"), c.integer("kernel")); },
         0, 0});
  check({"embedding",
         [](const Case& c) {
           const Tensor ids = c.tensor("ids").to(DType::i32), y = c.tensor("y");
           return view(embedding(c.leaf("weight"), ids.view({-1})), y.shape());
         },
         0, Bound{[](const Case& c, const std::string&) { return c.numel("ids"); }}});
}

TEST_CASE("functions of rows, pooling and losses are PyTorch's, and so are their gradients") {
  check({"normalize", [](const Case& c) { return normalize(c.leaf("x"), c.number("eps")); },
         with_columns("x", 4), with_columns("x", 4, 2)});
  check({"cosine_similarity",  // cosines are at most 1
         [](const Case& c) { return cosine_similarity(c.leaf("a"), c.leaf("b"), c.number("eps")); },
         with_columns("a", 6, 1, 1), with_columns("a", 6, 2)});
  for (const Row& row : {of("mean_pooling", PoolingMode::mean), of("cls_pooling", PoolingMode::cls),
                         of("max_pooling", PoolingMode::max)})
    check(row);
  // An exponential of 2 ulp and its argument, a sum of 67 / 16 + 5 steps, a quotient; the gradient
  // sums terms of the size of grad_y, which may cancel.
  check({"softmax", [](const Case& c) { return softmax(c.leaf("x")); }, 16, {32, 1}});
  check({"log_softmax", [](const Case& c) { return log_softmax(c.leaf("x")); }, 16, {32, 1}});
  check({"cross_entropy", cross_entropy_of, 16, 16});
}

TEST_CASE("the layers of decoders are PyTorch's, and so are their gradients") {
  check({"rms_norm",
         [](const Case& c) { return rms_norm(c.leaf("x"), c.leaf("weight"), c.number("eps")); }, 16,
         32});
  const Bound of_scores{32, 4};
  check({"scaled_dot_product_attention",
         [](const Case& c) {
           return scaled_dot_product_attention(c.leaf("q"), c.leaf("k"), c.leaf("v"),
                                               c.number("causal") != 0,
                                               c.has("mask") ? c.tensor("mask") : Tensor());
         },
         of_scores, of_scores});
  check({"rotary_embedding", [](const Case& c) { return rotary_embedding(c.leaf("x")); }, 8, 8});
  CHECK_THROWS_WITH_AS(rotary_embedding(zeros({2, 3})),
                       "[rotary_embedding] the last dimension of (2, 3) is not even", Error);
}

TEST_CASE("the bucket of every distance is MPNet's") {
  const Oracle ops("ops");
  const auto distance = ops.tensor("relative_position_bucket.mpnet/distance").to_vector<double>();
  const auto bucket = ops.tensor("relative_position_bucket.mpnet/y").to_vector<double>();
  REQUIRE(bucket.size() == distance.size());
  for (std::size_t i = 0; i < bucket.size(); ++i)
    CHECK(relative_position_bucket(static_cast<std::int64_t>(distance[i])) == bucket[i]);
}
