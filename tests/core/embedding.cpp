#include "ringlet/core/ops/embedding.h"

#include <doctest/doctest.h>

#include "../device.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/random.h"
#include "threads.h"

using namespace ringlet;
using Ids = std::vector<std::int32_t>;

namespace {

Tensor row_tensor(const Ids& ids) { return tensor(ids, {static_cast<std::int64_t>(ids.size())}); }
std::vector<double> numbers(const Tensor& x) { return x.to_vector<double>(); }

}  // namespace

TEST_CASE("embedding takes rows, in the table's dtype or in bf16") {
  const Tensor table = tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).view({3, 2});
  CHECK(embedding(table, row_tensor({2, 0, 2})).to_vector() ==
        std::vector<float>{5, 6, 1, 2, 5, 6});
  CHECK(embedding(table, row_tensor({1}), DType::bf16).dtype() == DType::bf16);
  CHECK(embedding(table, row_tensor({})).shape() == Shape{0, 2});
}

TEST_CASE("an id outside the table is named with its token") {
  const Tensor table = zeros({3, 2});
  CHECK_THROWS_WITH_AS(embedding(table, row_tensor({0, 2, 3})).to_vector(),
                       "[embedding] word id 3 at token 2, expected 0 to 2", Error);
  CHECK_THROWS_WITH_AS(embedding(table, row_tensor({-1})).to_vector(),
                       "[embedding] word id -1 at token 0, expected 0 to 2", Error);
  CHECK_THROWS_AS(embedding(table, zeros({2}, DType::i64)), Error);
  CHECK_THROWS_AS(embedding(table, zeros({2}, DType::i32), DType::f64), Error);
}

TEST_CASE("a GPU leaves an id outside the table out of the gradient") {
  if (default_device().type == DeviceType::cpu) return;
  Tensor grad = empty({3, 2});
  embedding_backward_into({grad, 0}, ones({6, 2}), row_tensor({1, 5, 1, -3, 3, 2}));
  CHECK(grad.to_vector() == std::vector<float>{0, 0, 2, 2, 1, 1});
}

TEST_CASE("ids of few tokens and of many add up all of them") {
  // Ones: their sums are exact in any order.
  for (std::int64_t tokens : {31, 32, 33, 100, 513})
    for (std::int64_t columns : {3, 8, 40}) {
      CAPTURE(tokens);
      CAPTURE(columns);
      Ids ids;
      for (std::int32_t t = 0; t < tokens; ++t) ids.insert(ids.end(), {1, 0, 3, 3});
      const Tensor grad = ones({4 * tokens, columns});
      Tensor out = full({5, columns}, 7);
      embedding_backward_into({out, 1}, grad, row_tensor(ids));
      const std::vector<float> sums = out.to_vector();
      const auto row = [&](std::int64_t id) {
        return sums[static_cast<std::size_t>(id * columns)];
      };
      CHECK(row(0) == 7 + static_cast<float>(tokens));
      CHECK(row(1) == 7 + static_cast<float>(tokens));
      CHECK(row(2) == 7);
      CHECK(row(3) == 7 + static_cast<float>(2 * tokens));
      CHECK(row(4) == 7);
    }
}

TEST_CASE(
    "embedding_backward_into sums rows by id, but for padding; beta keeps or clears the rest") {
  const Tensor grad = tensor({1.f, 2.f, 10.f, 20.f, 100.f, 200.f}).view({3, 2});
  Tensor out = full({4, 2}, 7);
  embedding_backward_into({out, 1}, grad, row_tensor({3, 1, 3}));
  CHECK(out.to_vector() == std::vector<float>{7, 7, 17, 27, 7, 7, 108, 209});
  embedding_backward_into({out, 0}, grad, row_tensor({3, 1, 3}));
  CHECK(out.to_vector() == std::vector<float>{0, 0, 10, 20, 0, 0, 101, 202});
  for (const auto& [beta, rest] : {std::pair(0., 0.f), std::pair(1., 7.f)}) {
    out.fill_(7);
    embedding_backward_into({out, beta}, grad, row_tensor({3, 1, 3}), /*padding=*/3);
    CHECK(out.to_vector() ==
          std::vector<float>{rest, rest, rest + 10, rest + 20, rest, rest, rest, rest});
  }
  embedding_backward_into({out, 0}, zeros({0, 2}), row_tensor({}));
  CHECK(out.to_vector() == std::vector<float>(8, 0));
}

TEST_CASE("rows add up in token order whatever the table's size and the number of threads") {
  const GeneratorGuard guard({.seed = 4});
  const Device device{DeviceType::cpu, 22};
  for (std::int32_t rows : {2, 1000}) {
    Ids ids;
    for (int t = 0; t < 300; ++t) ids.push_back(t * 7919 % rows);
    const Tensor at = row_tensor(ids).to(device);
    const Tensor grad = normal({300, 150}, 0, 1, DType::f32, device);
    std::vector<float> expected(static_cast<std::size_t>(rows) * 150, 0);
    const std::vector<float> g = grad.to_vector();
    for (std::size_t t = 0; t < ids.size(); ++t)
      for (std::size_t c = 0; c < 150; ++c)
        expected[static_cast<std::size_t>(ids[t]) * 150 + c] += g[t * 150 + c];
    const std::vector<float> sums = on_any_threads([&] {
      Tensor out = empty({rows, 150}, DType::f32, device);
      embedding_backward_into({out, 0}, grad, at);
      return out.to_vector();
    });
    CHECK(sums == expected);
  }
}

TEST_CASE("the fused embedding sum equals gathers, sums, layer_norm and dropout") {
  const GeneratorGuard guard({.seed = 5});
  const DropoutKey key{.p = 0.4f, .seed = 3};
  const Tensor at = tensor(Ids{4, 0, 4, 1, 9, 0, 9, 1, 9, 2}, {5, 2});
  for (DType dtype : {DType::f32, DType::f64}) {
    for (bool has_types : {true, false}) {
      const std::int64_t columns = 70;
      const EmbeddingTables tables{normal({11, columns}, 0, 1, dtype),
                                   normal({6, columns}, 0, 1, dtype),
                                   has_types ? normal({2, columns}, 0, 1, dtype) : Tensor()};
      const EmbeddingIds ids{row_tensor({10, 3, 3, 0, 3}), row_tensor({2, 3, 2, 3, 4}),
                             has_types ? row_tensor({0, 0, 0, 1, 1}) : Tensor()};
      const Tensor w = normal({columns}, 1, 1, dtype), b = normal({columns}, 0, 1, dtype);
      const auto fused = embedding_sum_layer_norm(tables, ids, w, b, 1e-12, key, at, dtype);

      Tensor z = add(embedding(tables.word, ids.word), embedding(tables.position, ids.position));
      if (has_types) z = add(z, embedding(tables.type, ids.type));
      const auto composed = layer_norm(z, w, b, 1e-12);
      CHECK(numbers(fused.y) == numbers(dropout(composed.y, key, at)));

      const Tensor grad = normal({5, columns}, 0, 1, dtype);
      Tensor gw[2] = {empty_like(w), empty_like(w)}, gb[2] = {empty_like(b), empty_like(b)};
      Tensor word = empty_like(tables.word), position = empty_like(tables.position);
      Tensor type = has_types ? empty_like(tables.type) : Tensor();
      embedding_sum_layer_norm_backward(
          {{word, 0}, {position, 0}, {type, 0}, {gw[0], 0}, {gb[0], 0}}, grad, fused.normalized,
          fused.rstd, ids, w, key, at);
      const Tensor grad_z = layer_norm_backward(dropout(grad, key, at), z, composed.mean,
                                                composed.rstd, w, true, {gw[1], 0}, {gb[1], 0});
      Tensor expected = empty_like(tables.word);
      embedding_backward_into({expected, 0}, grad_z, ids.word);
      CHECK(numbers(word) == numbers(expected));
      CHECK(numbers(gw[0]) == numbers(gw[1]));
      CHECK(numbers(gb[0]) == numbers(gb[1]));
      if (has_types)
        CHECK(numbers(type[0])[5] == numbers(add(add(grad_z[0], grad_z[1]), grad_z[2]))[5]);
    }
  }
}

TEST_CASE("the embedding sum takes no tokens") {
  const Tensor w = ones({4});
  const EmbeddingTables tables{zeros({3, 4}), zeros({2, 4}), {}};
  CHECK(embedding_sum_layer_norm(tables, {row_tensor({}), row_tensor({}), {}}, w, w, 1e-5,
                                 {.p = 0.5f}, {}, DType::bf16)
            .y.shape() == Shape{0, 4});
}

TEST_CASE("the embedding sum names the table of a wrong id") {
  const Tensor w = ones({4});
  const EmbeddingTables tables{zeros({3, 4}), zeros({2, 4}), {}};
  CHECK_THROWS_WITH_AS(embedding_sum_layer_norm(tables, {row_tensor({0}), row_tensor({2}), {}}, w,
                                                w, 1e-5, {}, {}, DType::f32)
                           .y.to_vector(),
                       "[embedding] position id 2 at token 0, expected 0 to 1", Error);
  CHECK_THROWS_AS(
      embedding_sum_layer_norm(tables, {row_tensor({0}), row_tensor({1}), row_tensor({0})}, w, w,
                               1e-5, {}, {}, DType::f32),
      Error);
}
