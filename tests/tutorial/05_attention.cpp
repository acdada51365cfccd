// Lesson 5: attention and one encoder layer by hand, from products and a softmax.
#include <doctest/doctest.h>

#include <cmath>
#include <iostream>

#include "ringlet.h"

using namespace ringlet;

namespace {
constexpr int kWords = 6, kFeatures = 16, kHeads = 2, kSize = kFeatures / kHeads;

Variable dense(const Variable& x, const nn::Module& layer, const std::string& name) {
  return autograd::linear(x, layer.parameter(name + ".weight"), layer.parameter(name + ".bias"));
}
// Each row gets the mean 0 and the variance 1, then a learned scale and offset.
Variable norm(const Variable& x, const nn::Module& layer, const std::string& name) {
  return autograd::layer_norm(x, layer.parameter(name + ".weight"), layer.parameter(name + ".bias"),
                              1e-5);
}

// x (T, H) has a row for each token. Its query is compared with the keys of all tokens.
Variable attend(const Variable& x, const nn::Module& layer) {
  const Variable q = dense(x, layer, "q"), k = dense(x, layer, "k"), v = dense(x, layer, "v");
  std::vector<Variable> heads;
  for (int begin = 0; begin < kFeatures; begin += kSize) {  // a head has a part of the columns
    const auto head = [&](const Variable& all) { return narrow(all, 1, begin, kSize); };
    const Variable scores = matmul(head(q), head(k), {.trans_b = true}) * (1 / std::sqrt(kSize));
    const Variable weights = softmax(scores);  // (T, T), rows that add up to 1
    if (begin == 0) std::cout << "the weights of a head: " << weights.tensor() << "\n";
    heads.push_back(matmul(weights, head(v)));  // (T, size of a head)
  }
  return dense(autograd::concat(heads, 1), layer, "out");
}

// Attention mixes the tokens, two dense layers change each alone. Both are added to their input.
Variable layer_by_hand(const Variable& x, const nn::Module& layer) {
  const Variable middle = norm(x + attend(x, layer), layer, "norm");
  const Variable wide = gelu(dense(middle, layer, "up"));  // (T, 4H); gelu is a smooth ReLU
  return norm(middle + dense(wide, layer, "down"), layer, "last");
}
}  // namespace

TEST_CASE("05 attention") {
  manual_seed(5);
  models::EncoderLayer layer({.hidden_size = kFeatures,
                              .num_attention_heads = kHeads,
                              .intermediate_size = 4 * kFeatures,
                              .initializer_range = 0.5},
                             {"Layer", "q", "k", "v", "out", "norm", "up", "down", "last"});
  layer.eval();  // without dropout, which zeroes random numbers in training
  const Variable x(normal({kWords, kFeatures}));
  models::PackedBatch sentence;  // one sentence of all tokens
  sentence.cu_seqlens = tensor<std::int32_t>({0, kWords});
  const Tensor error = layer_by_hand(x, layer).tensor() - layer(x, sentence, {}).tensor();
  std::cout << "largest difference from the library's layer: " << max(abs(error)).item() << "\n";
  CHECK(max(abs(error)).item() < 1e-5f);
}
