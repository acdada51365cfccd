#include "ringlet/core/ops/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "../device.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/pooling.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"
#include "ringlet/core/ops/relative_position.h"
#include "threads.h"

using namespace ringlet;
using Ids = std::vector<std::int32_t>;

namespace {

Tensor ids_of(const Ids& ids) { return tensor(ids, {static_cast<std::int64_t>(ids.size())}); }

std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }

// Whether DropoutKey's rule keeps a weight.
bool kept(const DropoutKey& key, std::int32_t sentence, std::int64_t head, std::int64_t query,
          std::int64_t k) {
  const PhiloxBlock block = philox<7>(
      {{static_cast<std::uint32_t>(sentence), static_cast<std::uint32_t>(head),
        static_cast<std::uint32_t>(query / 16 * 8 + query % 8), static_cast<std::uint32_t>(k / 4)}},
      derive_key(key.seed, key.step, key.site));
  const std::uint32_t half = block.word[k % 4] >> (query % 16 < 8 ? 0 : 16) & 0xffffu;
  return half >= std::round(key.p * 0x1p16);
}

struct Case {
  Ids cu_seqlens;
  std::int64_t heads;
  std::int64_t size;
  Ids sentence_ids;
  float p;
};

// The definition in f64, one weight at a time. Returns out (T, heads d).
std::vector<double> by_definition(const Case& c, const Tensor& qkv, const Tensor& bias,
                                  const DropoutKey& key) {
  const std::vector<double> x = values(qkv), b = bias ? values(bias) : std::vector<double>();
  const std::int64_t hidden = c.heads * c.size;
  std::vector<double> out(static_cast<std::size_t>(qkv.size(0) * hidden), 0);
  const auto at = [&](std::int64_t token, int part, std::int64_t head, std::int64_t i) {
    return x[static_cast<std::size_t>(token * 3 * hidden + part * hidden + head * c.size + i)];
  };
  for (std::size_t s = 0; s + 1 < c.cu_seqlens.size(); ++s)
    for (std::int64_t head = 0; head < c.heads; ++head)
      for (std::int64_t q = c.cu_seqlens[s]; q < c.cu_seqlens[s + 1]; ++q) {
        const std::int64_t first = c.cu_seqlens[s];
        std::vector<double> weight;
        double total = 0;
        for (std::int64_t k = first; k < c.cu_seqlens[s + 1]; ++k) {
          double score = 0;
          for (std::int64_t i = 0; i < c.size; ++i) score += at(q, 0, head, i) * at(k, 1, head, i);
          score /= std::sqrt(static_cast<double>(c.size));
          if (bias)
            score += b[static_cast<std::size_t>(relative_position_bucket(k - q) * c.heads + head)];
          weight.push_back(std::exp(score));
          total += weight.back();
        }
        for (std::size_t j = 0; j < weight.size(); ++j) {
          const auto k = static_cast<std::int64_t>(j);
          if (key.p > 0 && !kept(key, c.sentence_ids[s], head, q - first, k)) continue;
          const double p = weight[j] / total * (1 / (1 - std::round(key.p * 0x1p16) / 0x1p16));
          for (std::int64_t i = 0; i < c.size; ++i)
            out[static_cast<std::size_t>(q * hidden + head * c.size + i)] +=
                p * at(first + k, 2, head, i);
        }
      }
  return out;
}

double largest_difference(const Tensor& a, const std::vector<double>& b) {
  const Tensor expected = tensor(b, a.shape());
  return max(abs(sub(a.to(DType::f64), expected))).item<double>();
}

}  // namespace

TEST_CASE("buckets are exact near by, logarithmic further off, one side above the other") {
  CHECK(relative_position_bucket(0) == 0);
  CHECK(relative_position_bucket(-7) == 7);  // key left of the query
  CHECK(relative_position_bucket(7) == 23);  // key right of it
  CHECK(relative_position_bucket(-8) == 8);
  CHECK(relative_position_bucket(-11) == 8);
  CHECK(relative_position_bucket(-12) == 9);
  CHECK(relative_position_bucket(16) == 26);
  CHECK(relative_position_bucket(-90) == 14);
  CHECK(relative_position_bucket(-91) == 15);
  CHECK(relative_position_bucket(511) == 31);
}

TEST_CASE("attention equals its definition, relative bias and dropout included") {
  const GeneratorGuard guard({.seed = 1});
  for (const Case& c : {Case{{0, 1, 3, 18, 34, 51}, 2, 5, {0, 1, 2, 3, 9}, 0.0f},
                        Case{{0, 20, 31}, 3, 64, {6, 7}, 0.2f},
                        Case{{0, 64, 129, 129, 259}, 1, 32, {2, 3, 4, 11}, 0.5f}}) {
    CAPTURE(c.size);
    const std::int64_t tokens = c.cu_seqlens.back();
    const DropoutKey key{.p = c.p, .seed = 8, .step = 1, .site = 2};
    const Tensor qkv = normal({tokens, 3 * c.heads * c.size}, 0, 1, DType::f64);
    for (bool biased : {false, true}) {
      const Tensor bias = biased ? normal({32, c.heads}, 0, 1, DType::f64) : Tensor();
      const AttentionOptions options{c.heads, bias, key, ids_of(c.sentence_ids)};
      const Tensor cu_seqlens = ids_of(c.cu_seqlens);
      CHECK(largest_difference(attention(qkv, cu_seqlens, options).out,
                               by_definition(c, qkv, bias, key)) < 1e-13);

      // f32: a score is d products of roundoff u each, of total size |q| |k| / sqrt(d) < 5 sqrt(d)
      // here. Its absolute error is the relative error of P, and dropout at most doubles P.
      AttentionOptions low = options;
      if (biased) low.relative_bias = bias.to(DType::f32);
      const double size = 2 * max(abs(qkv)).item<double>();
      const double roots = std::sqrt(static_cast<double>(c.size));
      for (DType dtype : {DType::f32, DType::bf16}) {
        const Tensor x = qkv.to(dtype);
        const std::vector<double> exact = by_definition(c, x, low.relative_bias, key);
        const double result = dtype == DType::f32 ? 0 : 0x1p-8;
        CHECK(largest_difference(attention(x, cu_seqlens, low).out, exact) <=
              size * (result + (16 + 5 * roots * 2) * 0x1p-24));
      }
    }
  }
}

TEST_CASE("weights and log-sum-exps keep the bounds of exp and log") {
  // Sentences of two tokens: the first query is 1, the keys are 0 and x, the values 0 and 1.
  constexpr int kSentences = 20'001;
  std::vector<float> qkv;
  Ids ends{0};
  for (int i = 0; i < kSentences; ++i) {
    const float x = static_cast<float>(-87.0 + 87.0 * i / (kSentences - 1));
    qkv.insert(qkv.end(), {1, 0, 0, 1, x, 1});
    ends.push_back(2 * i + 2);
  }
  const auto [out, lse] = attention(tensor(qkv, {2 * kSentences, 3}), ids_of(ends), {.heads = 1});
  const std::vector<double> weights = values(out), sums = values(lse);
  double worst_weight = 0, worst_sum = 0;
  for (std::size_t i = 0; i < kSentences; ++i) {
    // In roundoffs: exp 4, 1 + e^x 1 plus at most half of exp's, 1 / sum 1, the product 1.
    const double e = std::exp(static_cast<double>(qkv[6 * i + 4])), weight = e / (1 + e);
    worst_weight = std::max(worst_weight, std::abs(weights[2 * i] / weight - 1));
    // The sum's 3 and log's own 2 ulp, i.e. 4 roundoffs of its value.
    const double exact = std::log1p(e);
    worst_sum = std::max(worst_sum, std::abs(sums[2 * i] - exact) / (3 + 4 * exact));
  }
  CHECK(worst_weight <= 9 * 0x1p-24);
  CHECK(worst_sum <= 0x1p-24);
}

TEST_CASE("a sentence has the same bits alone and among others, on any number of threads") {
  const GeneratorGuard guard({.seed = 2});
  const Device device{DeviceType::cpu, 23};
  const Tensor qkv = normal({40, 3 * 48}, 0, 1, DType::f32, device);
  const Tensor grad = normal({40, 48}, 0, 1, DType::f32, device);
  const Tensor bias = normal({32, 3}, 0, 1, DType::f32, device);
  const DropoutKey key{.p = 0.3f};
  const Tensor cu_seqlens = ids_of({0, 7, 24, 40}).to(device);
  const AttentionOptions options{3, bias, key, ids_of({5, 6, 7}).to(device)};
  const std::vector<double> all = on_any_threads([&] {
    const auto forward = attention(qkv, cu_seqlens, options);
    Tensor grad_bias = empty({32, 3}, DType::f32, device);
    const Tensor grad_qkv =
        attention_backward(grad, qkv, forward, cu_seqlens, options, {grad_bias, 0});
    return std::vector{values(forward.out), values(grad_qkv), values(grad_bias)};
  })[0];
  const AttentionOptions own{3, bias, key, ids_of({6}).to(device)};
  const auto alone = attention(qkv.slice(7, 24), ids_of({0, 17}).to(device), own);
  CHECK(values(alone.out) == std::vector<double>(all.begin() + 7 * 48, all.begin() + 24 * 48));
}

TEST_CASE("the gradient of the relative bias is written or added") {
  const GeneratorGuard guard({.seed = 3});
  const Tensor qkv = normal({9, 3 * 4}), grad = normal({9, 4}), cu_seqlens = ids_of({0, 4, 9});
  const AttentionOptions options{2, normal({32, 2}), {}, {}};
  const AttentionOutput forward = attention(qkv, cu_seqlens, options);
  Tensor written = full({32, 2}, 100), added = ones({32, 2});
  attention_backward(grad, qkv, forward, cu_seqlens, options, {written, 0});
  attention_backward(grad, qkv, forward, cu_seqlens, options, {added, 1});
  CHECK(values(added) == values(add(written, ones({32, 2}))));
  CHECK(written[8].to_vector() == std::vector<float>{0, 0});  // no two tokens so far apart
}

TEST_CASE("attention takes no sentences and empty ones, and says what does not fit") {
  const Tensor none = zeros({0, 12});
  const AttentionOutput empty = attention(none, ids_of({0}), {.heads = 2});
  CHECK(empty.out.shape() == Shape{0, 4});
  CHECK(attention_backward(empty.out, none, empty, ids_of({0}), {.heads = 2}, {}).shape() ==
        none.shape());
  const Tensor table = zeros({32, 2});
  Tensor grad_bias = ones({32, 2});
  const AttentionOptions options{2, table, {}, {}};
  attention_backward(empty.out, none, empty, ids_of({0, 0}), options, {grad_bias, 0});
  CHECK(grad_bias.to_vector() == std::vector<float>(64, 0));

  const Tensor qkv = zeros({3, 12});
  CHECK_THROWS_WITH_AS(attention(qkv, ids_of({0, 3}), {.heads = 3}),
                       "[attention] qkv is (3, 12), expected (T, 3 x 3 heads x d)", Error);
  CHECK_THROWS_AS(attention(qkv, ids_of({0, 3}), {2, zeros({31, 2}), {}, {}}), Error);
  CHECK_THROWS_AS(attention(qkv, ids_of({0, 3}), {2, {}, {.p = 1}, {}}), Error);
  CHECK_THROWS_AS(attention(qkv, ids_of({0, 3}), {2, {}, {}, ids_of({1, 2})}), Error);
  for (const Tensor& wrong : {zeros({3, 2}), zeros({2, 3}, DType::f64),
                              zeros({2, 3}, DType::f32, Device::parse("cpu:2")), Tensor()})
    for (const AttentionOutput& forward :
         {AttentionOutput{zeros({3, 4}), wrong}, AttentionOutput{wrong, zeros({2, 3})}})
      CHECK_THROWS_AS(
          attention_backward(zeros({3, 4}), qkv, forward, ids_of({0, 3}), {.heads = 2}, {}), Error);
}

TEST_CASE("sentences that do not tile the tokens are named") {
  const Tensor x = zeros({3, 12});
  const auto message = [](const char* sentence) {
    return str(
        "[cu_seqlens] sentence ", sentence,
        "; cu_seqlens must start at 0, never fall and end at the number of tokens, and lengths "
        "must fit");
  };
  const auto refused = [&](const Tensor& cu_seqlens, const char* sentence) {
    CHECK_THROWS_WITH_AS(attention(x, cu_seqlens, {.heads = 2}).out.to_vector(),
                         message(sentence).c_str(), Error);
    CHECK_THROWS_WITH_AS(pooling(PoolingMode::mean, x, cu_seqlens).y.to_vector(),
                         message(sentence).c_str(), Error);
  };
  refused(ids_of({0, 2}), "0 is tokens 0 to 2");
  refused(ids_of({0, 2, 1}), "1 is tokens 2 to 1");
  refused(ids_of({1, 3}), "0 is tokens 1 to 3");
  refused(ids_of({0, 2, 1 << 20}), "1 is tokens 2 to 1048576");
  CHECK_THROWS_AS(attention(x, ids_of({0}), {.heads = 2}), Error);
  for (const Ids& lengths : {Ids{2, 2}, Ids{-1, 1}, Ids{0, 1}}) {
    CHECK_THROWS_AS(
        attention(x, ids_of({0, 2, 3}), {.heads = 2, .lengths = ids_of(lengths)}).out.to_vector(),
        Error);
    CHECK_THROWS_AS(pooling(PoolingMode::mean, x, ids_of({0, 2, 3}), ids_of(lengths)).y.to_vector(),
                    Error);
  }
}

TEST_CASE("a dropout of attention too small for its 16 bits is refused") {
  const Tensor qkv = zeros({2, 12}), cu_seqlens = tensor<std::int32_t>({0, 2});
  const auto with = [&](float p) { attention(qkv, cu_seqlens, {.dropout = {.p = p, .seed = 1}}); };
  CHECK_NOTHROW(with(0x1p-17f));
  CHECK_THROWS_WITH_AS(with(0x1p-18f),
                       "[attention] p is 3.8147e-06, expected 0 or at least 2^-17, 7.62939e-06",
                       InputError);
}

TEST_CASE("some heads of a layer have the dropout of these heads in the whole layer") {
  const GeneratorGuard guard({.seed = 1});
  const std::int64_t heads = 6, size = 32, tokens = 75;
  const Tensor cu_seqlens = ids_of({0, 40, 41, 75});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(dtype);
    const Tensor qkv = normal({tokens, 3 * heads * size}).to(dtype);
    const Tensor grad = normal({tokens, heads * size}).to(dtype);
    AttentionOptions options{.heads = heads, .dropout = {.p = 0.3f, .seed = 8, .site = 2}};
    const AttentionOutput whole = attention(qkv, cu_seqlens, options);
    const Tensor whole_grad =
        attention_backward(grad, qkv, whole, cu_seqlens, options, GradientSink{});
    options.heads = 2;
    for (options.first_head = 0; options.first_head < heads; options.first_head += 2) {
      const std::int64_t begin = options.first_head * size, columns = 2 * size;
      const auto of_part = [&](const Tensor& x) {  // q, k and v of these heads
        std::vector<Tensor> parts;
        for (int i = 0; i < 3; ++i)
          parts.push_back(narrow(x, 1, i * heads * size + begin, columns));
        return concat(parts, 1);
      };
      const AttentionOutput part = attention(of_part(qkv), cu_seqlens, options);
      CHECK(values(part.out) == values(narrow(whole.out, 1, begin, columns)));
      const Tensor part_grad = attention_backward(narrow(grad, 1, begin, columns), of_part(qkv),
                                                  part, cu_seqlens, options, GradientSink{});
      CHECK(values(part_grad) == values(of_part(whole_grad)));
    }
  }
}

// -infinity is a key that no query attends to. A sentence has fewer tokens than a vector has lanes.
TEST_CASE("an infinite key leaves the gradient of the relative bias finite") {
  const GeneratorGuard guard({.seed = 4});
  const Tensor cu_seqlens = ids_of({0, 5, 8}), bias = normal({32, 1}), grad = normal({8, 4});
  const Tensor qkv = normal({8, 12});
  for (std::int64_t token = 0; token < 8; ++token) qkv[token].slice(0, 1).fill_(-1);
  const auto gradient = [&](float key) {
    const Tensor x = qkv.clone();
    for (const std::int64_t token : {1, 6}) x[token].slice(4, 5).fill_(key);
    const AttentionOptions options{.heads = 1, .relative_bias = bias};
    const Tensor grad_bias = empty({32, 1});
    const AttentionOutput out = attention(x, cu_seqlens, options);
    attention_backward(grad, x, out, cu_seqlens, options, {grad_bias, 0});
    return values(grad_bias);
  };
  CHECK(gradient(std::numeric_limits<float>::infinity()) == gradient(1e30f));
}
