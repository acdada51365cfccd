// Numeric gradients of layers, functions of rows and losses.
#include "check.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/nn/slices.h"

using namespace ringlet;
using namespace ringlet::autograd;

namespace {

Tensor ids_of(const std::vector<std::int32_t>& ids) {
  return tensor(ids, {static_cast<std::int64_t>(ids.size())});
}

}  // namespace

TEST_CASE("gradients of attention, relative bias and dropout included") {
  const Tensor cu_seqlens = ids_of({0, 1, 4, 10});
  for (float p : {0.0f, 0.3f}) {
    const AttentionOptions options{2, {}, {.p = p, .seed = 1}, ids_of({3, 8, 9})};
    CHECK_GRADIENTS([&](const Inputs& in) { return attention(in[0], in[1], cu_seqlens, options); },
                    input({10, 3 * 2 * 3}), input({32, 2}));
    CHECK_GRADIENTS([&](const Inputs& in) { return attention(in[0], {}, cu_seqlens, options); },
                    input({10, 3 * 2 * 3}));
  }
}

TEST_CASE("gradients of attention over more queries than one block") {
  const Tensor cu_seqlens = ids_of({0, 70});
  CHECK_GRADIENTS(
      [&](const Inputs& in) {
        return attention(in[0], in[1], cu_seqlens, {1, {}, {.p = 0.3f}, {}});
      },
      input({70, 3}), input({32, 1}));
}

TEST_CASE("gradients of a part in three slices, with a residual") {
  const nn::LayerSlices slices({}, 3), by_rows({}, 3, /*sequence=*/true);
  const auto part = [&](const Inputs& in) {
    const std::vector<Variable> x = slices.inputs(in[0]);
    return slices.sum({matmul(x[0], in[1]), matmul(x[1], in[2]), matmul(x[2], in[3])}, in[4]) +
           in[0];
  };
  CHECK_GRADIENTS(part, input({2, 4}), input({4, 4}), input({4, 4}), input({4, 4}), input({4}));
  // Each slice adds the bias to its share of the rows.
  const auto sum = [&](const Inputs& in) { return by_rows.sum({in[0], in[1], in[2]}, in[3]); };
  CHECK_GRADIENTS(sum, input({2, 4}), input({2, 4}), input({2, 4}), input({4}));
}

TEST_CASE("gradients of conv2d") {
  for (const Conv2dOptions& options :
       {Conv2dOptions{}, Conv2dOptions{1, 1}, Conv2dOptions{2, 1}, Conv2dOptions{2, 0}}) {
    CAPTURE(options.stride);
    CAPTURE(options.padding);
    const auto with_bias = [&](const Inputs& in) { return conv2d(in[0], in[1], in[2], options); };
    CHECK_GRADIENTS(with_bias, input({2, 2, 6, 5}), input({3, 2, 3, 2}), input({3}));
    const auto without = [&](const Inputs& in) { return conv2d(in[0], in[1], {}, options); };
    CHECK_GRADIENTS(without, input({1, 1, 4, 4}), input({2, 1, 3, 3}));
  }
}

TEST_CASE("gradients of max_pool2d") {
  CHECK_GRADIENTS([](const Inputs& in) { return max_pool2d(in[0], 2); }, input({2, 2, 4, 5}));
  CHECK_GRADIENTS([](const Inputs& in) { return max_pool2d(in[0], 3, 1); }, input({1, 2, 5, 5}));
}

TEST_CASE("gradients of normalize and of cosine similarities") {
  CHECK_GRADIENTS([](const Inputs& in) { return normalize(in[0]); }, input({3, 18}));
  CHECK_GRADIENTS([](const Inputs& in) { return normalize(in[0], 100); }, input({3, 4}));
  CHECK_GRADIENTS([](const Inputs& in) { return cosine_similarity(in[0], in[1]); }, input({3, 18}),
                  input({3, 18}));
  CHECK_GRADIENTS([](const Inputs& in) { return cosine_similarity(in[0], in[1], 1.5); },
                  input({3, 4}), input({3, 4}, 2, 3));
  CHECK_GRADIENTS([](const Inputs& in) { return cosine_similarity_matrix(in[0], in[1]); },
                  input({3, 5}), input({4, 5}));
}

TEST_CASE("the matrix holds the cosines of all pairs") {
  const Variable a(tensor({1.f, 0.f, 3.f, 4.f}).view({2, 2}));
  const Variable b(tensor({0.f, 2.f, 5.f, 0.f}).view({2, 2}));
  CHECK(cosine_similarity_matrix(a, b).tensor().to_vector() ==
        std::vector<float>{0, 1, 0.8f, 0.6f});
}

TEST_CASE("gradients of embedding") {
  const Tensor ids = ids_of({1, 4, 1, 0});
  CHECK_GRADIENTS([&](const Inputs& in) { return embedding(in[0], ids); }, input({5, 3}));
}

TEST_CASE("gradients of the embedding sum, with and without token types, dropout on") {
  const EmbeddingIds ids{ids_of({4, 1, 4}), ids_of({0, 1, 2}), ids_of({0, 1, 1})};
  const auto with_types = [&](const Inputs& in) {
    return embedding_sum_layer_norm(in[0], in[1], in[2], ids, in[3], in[4], 1e-3, {.p = 0.3f}, {},
                                    DType::f64);
  };
  CHECK_GRADIENTS(with_types, input({5, 6}), input({3, 6}), input({2, 6}), input({6}), input({6}));
  const auto without = [&](const Inputs& in) {
    return embedding_sum_layer_norm(in[0], in[1], {}, {ids.word, ids.position, {}}, in[2], in[3],
                                    1e-3, {.p = 0.3f}, {}, DType::f64);
  };
  CHECK_GRADIENTS(without, input({5, 6}), input({3, 6}), input({6}), input({6}));
}

TEST_CASE("a second backward adds to the tables' gradients") {
  const Variable table(tensor({1.f, 2.f, 3.f, 4.f}).view({2, 2}), true);
  for (int i = 0; i < 2; ++i) embedding(table, ids_of({1, 1})).backward(ones({2, 2}));
  CHECK(table.grad().to_vector() == std::vector<float>{0, 0, 4, 4});
}

TEST_CASE("a token counted as -1 adds nothing to a table's gradient") {
  const Variable table(tensor({1.f, 2.f, 3.f, 4.f}).view({2, 2}), true);
  const Variable rows = embedding(table, ids_of({1, 0, 1}), DType::f32, ids_of({1, -1, -1}));
  CHECK(rows.tensor().to_vector() == std::vector<float>{3, 4, 1, 2, 3, 4});
  rows.backward(ones({3, 2}));
  CHECK(table.grad().to_vector() == std::vector<float>{0, 0, 1, 1});
}

TEST_CASE("gradients of layer_norm") {
  for (std::int64_t columns : {2, 7, 33}) {
    CAPTURE(columns);
    CHECK_GRADIENTS([](const Inputs& in) { return layer_norm(in[0], in[1], in[2], 1e-3); },
                    input({3, columns}), input({columns}), input({columns}));
  }
}

TEST_CASE("gradients of RMSNorm, rotary embedding and attention of batches") {
  CHECK_GRADIENTS([](const Inputs& in) { return rms_norm(in[0], in[1], 1e-3); }, input({3, 7}),
                  input({7}));
  const auto attend = [](const Inputs& in) {
    return scaled_dot_product_attention(rotary_embedding(in[0]), rotary_embedding(in[1]), in[2],
                                        /*causal=*/true);
  };
  CHECK_GRADIENTS(attend, input({2, 2, 5, 4}), input({2, 2, 5, 4}), input({2, 2, 5, 3}));
}

TEST_CASE("gradients of residual_dropout_layer_norm, dropout on and off") {
  for (float p : {0.0f, 0.4f}) {
    const auto f = [&](const Inputs& in) {
      return residual_dropout_layer_norm(in[0], in[1], {.p = p, .seed = 5}, {}, in[2], in[3], 1e-3);
    };
    CHECK_GRADIENTS(f, input({3, 35}), input({3, 35}), input({35}), input({35}));
  }
}

TEST_CASE("LayerNorm's backward gives the gradient of a bias that is in x") {
  const auto f = [](const Inputs& in) {
    Variable bias;
    const Variable x = linear(in[0], in[1], in[2], &bias);
    return residual_dropout_layer_norm(x, in[3], {.p = 0.4f, .seed = 5}, {}, in[4], in[5], 1e-3,
                                       bias);
  };
  CHECK_GRADIENTS(f, input({3, 4}), input({35, 4}), input({35}), input({3, 35}), input({35}),
                  input({35}));
  // One parameter as the bias of both; the layer alone needs no gradient.
  const auto only_biases = [](const Inputs& in) {
    Variable bias;
    const Variable x = linear(ones({2, 3}, DType::f64), ones({9, 3}, DType::f64), in[0], &bias);
    return residual_dropout_layer_norm(x, in[1], {}, {}, in[2], in[0], 1e-3, bias);
  };
  CHECK_GRADIENTS(only_biases, input({9}), input({2, 9}), input({9}));
}

TEST_CASE("x as its own residual gets both gradients") {
  const auto f = [](const Inputs& in) {
    return residual_dropout_layer_norm(in[0], in[0], {.p = 0.4f}, {}, in[1], in[1], 1e-3);
  };
  CHECK_GRADIENTS(f, input({2, 9}), input({9}));
}

TEST_CASE("gradients of pooling") {
  const Tensor cu_seqlens = ids_of({0, 3, 4, 9});
  for (PoolingMode mode : {PoolingMode::mean, PoolingMode::cls, PoolingMode::max}) {
    CAPTURE(static_cast<int>(mode));
    CHECK_GRADIENTS([&](const Inputs& in) { return pooling(mode, in[0], cu_seqlens); },
                    input({9, 5}));
  }
}

TEST_CASE("gradients of softmax, log_softmax and cross_entropy") {
  for (std::int64_t columns : {1, 5, 19}) {
    CAPTURE(columns);
    CHECK_GRADIENTS([](const Inputs& in) { return softmax(in[0]); }, input({3, columns}, -2, 2));
    CHECK_GRADIENTS([](const Inputs& in) { return log_softmax(in[0]); },
                    input({3, columns}, -2, 2));
    const Tensor labels = tensor<std::int64_t>({0, columns - 1, columns / 2}, {3});
    CHECK_GRADIENTS([&](const Inputs& in) { return cross_entropy(in[0], labels, 7); },
                    input({3, columns}, -2, 2));
  }
}

TEST_CASE("product_cross_entropy rounds the sum over its blocks once") {
  constexpr std::int64_t kBlocks = 64, kCandidates = 7;
  const Tensor rows = normal({kProductRows, 4}).to(DType::bf16);
  const Tensor candidates = normal({kCandidates, 4}).to(DType::bf16);
  const Tensor labels = zeros({kProductRows}, DType::i64);
  const auto gradient = [&](std::int64_t blocks) {
    const std::vector<Tensor> a(static_cast<std::size_t>(blocks), rows), of(a.size(), labels);
    const Variable b(candidates, true);
    product_cross_entropy(Variable(concat(a, 0)), b, concat(of, 0), 3, kProductRows).backward();
    return b.grad().to_vector<double>();
  };
  const std::vector<double> one = gradient(1), all = gradient(kBlocks);
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(std::abs(all[i] - kBlocks * one[i]) <= 0x1p-8 * std::abs(kBlocks * one[i]));
}

TEST_CASE("gradients of product_cross_entropy, alike in one block of rows and in several") {
  const Tensor labels = tensor<std::int64_t>({4, 0, 2}, {3});
  CHECK_GRADIENTS(
      [&](const Inputs& in) { return product_cross_entropy(in[0], in[1], labels, 3, 7); },
      input({3, 4}), input({5, 4}));

  constexpr std::int64_t kRows = 2 * kProductRows + 3, kCandidates = 7, kWidth = 4;
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < kRows; ++row) targets.push_back(row * 5 % kCandidates);
  const Tensor target = tensor(targets, {kRows});
  const Variable a(normal({kRows, kWidth}).to(DType::f64), true),
      b(normal({kCandidates, kWidth}).to(DType::f64), true);
  const auto run = [&](const Variable& value) {
    value.backward();
    std::vector<double> all{value.item<double>()};
    for (const Variable* x : {&a, &b}) {
      const auto gradient = x->grad().to_vector<double>();
      all.insert(all.end(), gradient.begin(), gradient.end());
      x->state()->has_grad = false;
    }
    return all;
  };
  const auto blocks = run(product_cross_entropy(a, b, target, 3, kRows));
  const auto whole = run(cross_entropy(matmul(a, b, {.trans_b = true}) * 3, target, kRows));
  REQUIRE(blocks.size() == whole.size());
  // A sum over the rows, in f64.
  for (std::size_t i = 0; i < whole.size(); ++i)
    CHECK(std::abs(blocks[i] - whole[i]) <= kRows * 0x1p-53 * std::max(1.0, std::abs(whole[i])));
}
