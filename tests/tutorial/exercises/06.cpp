// Exercises of lesson 6: sentence encoders.
#include "ringlet.h"

using namespace ringlet;

// 1. One vector for each sentence: the mean of its tokens. tokens (T, D) are packed: the first
// lengths[0] rows are the first sentence. -> (sentences, D)
Tensor mean_pooled(const Tensor& tokens, const std::vector<int>& lengths) {
  std::vector<Tensor> sentences;
  // gap: for each length mean(tokens.slice(begin, end), {0}); then begin becomes end.
  int begin = 0;
  for (const int length : lengths) {
    sentences.push_back(mean(tokens.slice(begin, begin + length), {0}));
    begin += length;
  }
  // end: for (const int length : lengths) sentences.push_back(tokens[0 * length]);
  return stack(sentences, 0);
}

// 2. The cosines of all pairs of rows: a (N, D), b (M, D) -> (N, M).
Tensor cosines(const Tensor& a, const Tensor& b) {
  // gap: divide each row by its length, the square root of sum(square(a), {1}, true); multiply.
  const Tensor of_a = a / sqrt(sum(square(a), {1}, /*keepdim=*/true));
  const Tensor of_b = b / sqrt(sum(square(b), {1}, true));
  return matmul(of_a, of_b, {.trans_b = true});
  // end: return matmul(a, b, {.trans_b = true});
}

// 3. The loss of a search. Row i of a (N, D) asks and row i of b (N, D) answers; other rows of b
// are wrong answers. It is the mean of -log softmax(scale * cosines)[i][i].
float ranking_loss(const Tensor& a, const Tensor& b, float scale) {
  // gap: autograd::cross_entropy(Variable(scores), labels, N) is a mean; row i has the label i.
  const std::int64_t rows = a.size(0);
  const Tensor labels = arange(0, static_cast<double>(rows));
  return autograd::cross_entropy(Variable(cosines(a, b) * scale), labels, rows).item();
  // end: return scale + cosines(a, b)[0].to_vector()[0];
}

// ---- checks
#include <cmath>

#include "exercise.h"

EXERCISE(1, "the mean of a sentence's tokens") {
  const Tensor tokens = tensor<float>({1, 10, 3, 20, 5, 60, 7, 80, 9, 100}, {5, 2});
  expect("sentences of 2 and 3 tokens", mean_pooled(tokens, {2, 3}),
         tensor<float>({2, 15, 7, 80}, {2, 2}), "the second sentence begins with token 2");
  expect("sentences of 1, 3 and 1 tokens", mean_pooled(tokens, {1, 3, 1}),
         tensor<float>({1, 10, 5, 160.f / 3, 9, 100}, {3, 2}), "each has a mean of its own tokens");
}

EXERCISE(2, "cosines") {
  const Tensor a = tensor<float>({3, 4, 0, 2}, {2, 2});
  const Tensor b = tensor<float>({30, 40, -5, 0, 4, -3}, {3, 2});
  expect("of 2 and 3 vectors", cosines(a, b), tensor<float>({1, -0.6f, 0, 0.8f, 0, -0.6f}, {2, 3}),
         "equal directions have the cosine 1, whatever their lengths");
}

EXERCISE(3, "the loss of a search") {
  const Tensor a = tensor<float>({1, 0, 0, 1, 0, -2}, {3, 2});
  const Tensor b = tensor<float>({5, 0, 3, 4, 0, -1}, {3, 2});
  const float first = std::log(1 + std::exp(2 * (0.6f - 1)) + std::exp(-2.f));
  const float second = std::log(std::exp(-1.6f) + 1 + std::exp(2 * -1.8f));
  const float third = std::log(std::exp(-2.f) + std::exp(2 * -1.8f) + 1);
  expect("of three pairs, scale 2", ranking_loss(a, b, 2), (first + second + third) / 3,
         "question 0 has the scores 2, 1.2 and 0; answer 0 is right");
  expect("of one pair", ranking_loss(a.slice(0, 1), b.slice(1, 2), 20), 0,
         "the only answer has the probability 1");
}
