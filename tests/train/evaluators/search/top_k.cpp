#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <limits>

#include "../../../device.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/ringlet.h"
#include "ringlet/train/evaluators/search/similarity.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("similarities of two rows, distances counted negatively") {
  const Tensor first = tensor(std::vector<float>{3, 4, 1, 0, 0, 0}, {3, 2});
  const Tensor second = tensor(std::vector<float>{4, 3, 0, 2, 1, 1}, {3, 2});
  using Values = std::vector<double>;
  CHECK(paired_similarities(Similarity::cosine, first, second) == Values{24.0 / 25, 0, 0});
  CHECK(paired_similarities(Similarity::dot, first, second) == Values{24, 0, 0});
  CHECK(paired_similarities(Similarity::euclidean, first, second) ==
        Values{-std::sqrt(2.0), -std::sqrt(5.0), -std::sqrt(2.0)});
  CHECK(paired_similarities(Similarity::manhattan, first, second) == Values{-2, -3, -2});
}

TEST_CASE("the cosine of equal embeddings is 1, and none is beyond") {
  manual_seed(3);
  for (const std::int64_t width : {1, 3, 16, 384})
    for (const double length : {1e-30, 1e-6, 1.0, 3e7, 1e30}) {
      CAPTURE(width);
      CAPTURE(length);
      const Tensor x = mul(normal({50, width}), length);
      const bool is_null = length < 1e-12;  // the norms count as that
      for (const double value : paired_similarities(Similarity::cosine, x, x))
        CHECK((is_null ? value <= 1 : value == 1));
      for (const double value : paired_similarities(Similarity::cosine, x, mul(x, -2)))
        CHECK((is_null ? value >= -1 : value == -1));
      for (const double value : paired_similarities(Similarity::cosine, x, mul(x, 1.1)))
        CHECK(value <= 1);
    }
}

namespace {

using Hits = std::vector<std::vector<Hit>>;

/// Whole numbers from -2 to 2, so that products are exact and often equal.
Tensor whole_numbers(std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
  const GeneratorGuard guard({seed, 0, 0});
  std::vector<float> values = uniform({rows * columns}, -2.5, 2.5).to_vector();
  for (float& value : values) value = std::round(value);
  return tensor(values, {rows, columns});
}

Hits search(const Tensor& queries, const Tensor& corpus, std::int64_t k, Similarity similarity,
            std::int64_t chunk) {
  TopKSearch search(queries, k, similarity);
  for (std::int64_t begin = 0; begin < corpus.size(0); begin += chunk)
    search.add(corpus.slice(begin, std::min(begin + chunk, corpus.size(0))));
  return search.finish();
}

/// Sorts the scores of all rows.
Hits sorted(const Tensor& queries, const Tensor& corpus, std::int64_t k, Similarity similarity) {
  const Tensor q = queries.to(Device{}), d = corpus.to(Device{});
  Hits all;
  for (std::int64_t i = 0; i < q.size(0); ++i) {
    std::vector<Hit>& hits = all.emplace_back();
    for (std::int64_t row = 0; row < d.size(0); ++row)
      hits.push_back({row, static_cast<float>(similarity_of(similarity, q[i].data<float>(),
                                                            d[row].data<float>(), q.size(1)))});
    std::ranges::stable_sort(hits, std::greater(), &Hit::score);
    hits.resize(static_cast<std::size_t>(std::min(k, d.size(0))));
  }
  return all;
}

}  // namespace

TEST_CASE("hits are those of a sort, with equal scores in the order of rows, for any pieces") {
  const Tensor queries = whole_numbers(1, 9, 4), corpus = whole_numbers(2, 2500, 4);
  for (const Similarity similarity :
       {Similarity::dot, Similarity::euclidean, Similarity::manhattan}) {
    CAPTURE(static_cast<int>(similarity));
    const Hits expected = sorted(queries, corpus, 20, similarity);
    for (const std::int64_t chunk : {1, 7, 1024, 2500}) {
      CAPTURE(chunk);
      CHECK(search(queries, corpus, 20, similarity, chunk) == expected);
    }
  }
}

TEST_CASE("cosines have the same bits for any pieces, and duplicates are in the order of rows") {
  const GeneratorGuard guard({3, 0, 0});
  const Tensor queries = normal({5, 24}), few = normal({300, 24});
  Tensor corpus = empty({1500, 24});
  for (std::int64_t row = 0; row < 1500; ++row) corpus[row].copy_(few[row * 7 % 300]);
  const Hits whole = search(queries, corpus, 40, Similarity::cosine, 1500);
  for (const std::int64_t chunk : {1, 7, 999})
    CHECK(search(queries, corpus, 40, Similarity::cosine, chunk) == whole);
  const Hits expected = sorted(queries, corpus, 40, Similarity::cosine);
  for (std::size_t q = 0; q < whole.size(); ++q)
    for (std::size_t i = 0; i < whole[q].size(); ++i) {
      if (has_shape_free_products) CHECK(whole[q][i].row == expected[q][i].row);
      CHECK(whole[q][i].score == doctest::Approx(expected[q][i].score).epsilon(1e-6));
    }
}

TEST_CASE("degenerate searches are defined") {
  const Tensor one = tensor(std::vector<float>{1, 2}, {1, 2});
  CHECK(search(one, one, 3, Similarity::dot, 1) == Hits{{{0, 5}}});
  CHECK(search(one, zeros({0, 2}), 3, Similarity::dot, 1) == Hits{{}});
  CHECK(search(zeros({0, 2}), one, 3, Similarity::dot, 1).empty());
  // A zero vector has the cosine 0 with every row.
  CHECK(search(zeros({1, 2}), one, 3, Similarity::cosine, 1) == Hits{{{0, 0}}});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor rows = tensor(std::vector<float>{nan, 1, 3, 1}, {2, 2});
  CHECK(search(one, rows, 3, Similarity::dot, 1) == Hits{{{1, 5}}});
  CHECK_THROWS_AS(TopKSearch(one, 0, Similarity::dot), Error);
  CHECK_THROWS_AS(TopKSearch(one, 1, Similarity::dot).add(zeros({1, 3})), Error);
}
