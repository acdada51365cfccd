// Exercises of lesson 5: attention by hand.
#include <algorithm>
#include <cmath>

#include "ringlet.h"

using namespace ringlet;

// 1. The softmax of some scores: exp(score), divided by the sum of all. Scores may be large.
std::vector<double> softmax_of(std::vector<double> scores) {
  // gap: exp(1000) overflows. Subtract the largest score first; that changes no result.
  const double most = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - most);
  for (double& score : scores) score /= total;
  return scores;
  // end: return scores;
}

// 2. The weights of a head: q (T, d), k (T, d) -> (T, T), the softmax of q k' / sqrt(d) by rows.
Tensor attention_weights(const Tensor& q, const Tensor& k) {
  // gap: a product with trans_b has all scores; q.size(1) is d.
  const double size = static_cast<double>(q.size(1));
  return softmax(matmul(q, k, {.trans_b = true}) / std::sqrt(size));
  // end: return {};
}

// 3. Attention over packed sentences: the first lengths[0] rows are a sentence, then come those of
// the next. A token attends to the tokens of its sentence only. q, k, v (T, d) -> (T, d).
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const std::vector<int>& lengths) {
  // gap: for each sentence slice(begin, end) of q, k and v; concat(parts, 0) joins the results.
  std::vector<Tensor> parts;
  int begin = 0;
  for (const int length : lengths) {
    const int end = begin + length;
    const Tensor weights = attention_weights(q.slice(begin, end), k.slice(begin, end));
    parts.push_back(matmul(weights, v.slice(begin, end)));
    begin = end;
  }
  return concat(parts, 0);
  // end: return {};
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "a softmax") {
  expect("softmax_of({0, ln 3})", softmax_of({0, std::log(3.0)}), {0.25, 0.75},
         "1 and 3, divided by 4");
  expect("softmax_of({1000, 1000, 0})", softmax_of({1000, 1000, 0}), {0.5, 0.5, 0},
         "exp of the difference from the largest score is at most 1");
  expect("softmax_of({-2000, -1000})", softmax_of({-2000, -1000}), {0, 1},
         "subtract the largest score, not the first");
}

EXERCISE(2, "the weights of a head") {
  const Tensor q = tensor<float>({2, 0, 0, 0, 0, 2, 0, 0}, {2, 4});
  const Tensor k = tensor<float>({1, 0, 0, 0, 0, 3, 0, 0}, {2, 4});
  const double a = 1 / (1 + std::exp(-1.0)), b = 1 / (1 + std::exp(-3.0));  // scores 2, 0 and 0, 6
  expect("the weights of 2 tokens, d = 4", attention_weights(q, k).to_vector<double>(),
         {a, 1 - a, 1 - b, b}, "each row adds up to 1; the scores are divided by 2");
}

EXERCISE(3, "packed sentences") {
  manual_seed(5);
  const Tensor q = normal({6, 4}), k = normal({6, 4}), v = normal({6, 4});
  for (const auto& lengths : {std::vector<int>{6}, {2, 4}, {1, 3, 2}}) {
    std::vector<std::int32_t> ends{0};
    for (const int length : lengths) ends.push_back(ends.back() + length);
    const Tensor qkv = concat({q, k, v}, 1);
    const Tensor starts = tensor(ends, {static_cast<std::int64_t>(ends.size())});
    expect("sentences of " + exercise::text(lengths) + " tokens", attend(q, k, v, lengths),
           attention(qkv, starts, {}).out,
           "exercise 2 must be right; a sentence begins where the one before it ends");
  }
}
