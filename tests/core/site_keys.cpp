#include "ringlet/core/tensor/random.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/core/ops/layer_norm.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;

namespace {

struct Draw {
  std::string name;
  std::function<Tensor(const DropoutKey&)> op;
};

// Every op that draws random numbers, with the same arguments at each call.
std::vector<Draw> draws() {
  const Tensor x = normal({5, 48}), other = normal({5, 48}), rstd = uniform({5}, 1, 2);
  const Tensor weight = normal({48}), bias = normal({48});
  const Tensor word = normal({7, 48}), ids = tensor<std::int32_t>({1, 6, 0, 2, 2});
  const Tensor qkv = normal({5, 48}), out_grad = normal({5, 16});
  const Tensor cu_seqlens = tensor<std::int32_t>({0, 3, 5});
  const auto gradients = [=] { return std::pair(zeros({48}), zeros({48})); };
  const auto options = [](const DropoutKey& key) {
    return AttentionOptions{.heads = 2, .dropout = key};
  };
  return {
      {"dropout", [=](const DropoutKey& key) { return dropout(x, key); }},
      {"residual_dropout_layer_norm",
       [=](const DropoutKey& key) {
         return residual_dropout_layer_norm(x, other, key, {}, weight, bias, 1e-5).y;
       }},
      {"residual_dropout_layer_norm_backward",
       [=](const DropoutKey& key) {
         auto [w, b] = gradients();
         return residual_dropout_layer_norm_backward(x, other, rstd, weight, key, {}, {w, 0},
                                                     {b, 0})
             .x;
       }},
      {"layer_norm_dropout_backward",
       [=](const DropoutKey& key) {
         auto [w, b] = gradients();
         return layer_norm_dropout_backward(x, other, rstd, weight, key, {}, {w, 0}, {b, 0});
       }},
      {"embedding_sum_layer_norm",
       [=](const DropoutKey& key) {
         return embedding_sum_layer_norm({word, word, {}}, {ids, ids, {}}, weight, bias, 1e-5, key,
                                         {}, DType::f32)
             .y;
       }},
      {"attention",
       [=](const DropoutKey& key) { return attention(qkv, cu_seqlens, options(key)).out; }},
      {"attention_backward",
       [=](const DropoutKey& key) {
         const AttentionOutput forward = attention(qkv, cu_seqlens, options(key));
         return attention_backward(out_grad, qkv, forward, cu_seqlens, options(key), {});
       }},
  };
}

}  // namespace

TEST_CASE("every op draws under the key that lies on its device when it runs") {
  const GeneratorGuard guard(RandomGenerator{3, 5, 0});
  const std::vector<Draw> all = draws();
  SiteKeys keys(default_device());
  keys.fill(3, 5);
  RandomGenerator with_keys{3, 5, 0};
  with_keys.keys = &keys;
  const DropoutKey key = with_keys.dropout_key(0.5f, 7);
  REQUIRE(key.at != nullptr);
  for (const std::uint64_t step : {5, 6}) {
    keys.fill(3, step);
    const DropoutKey by_value{.p = 0.5f, .seed = 3, .step = step, .site = 7};
    const DropoutKey other{.p = 0.5f, .seed = 3, .step = step + 1, .site = 7};
    for (const Draw& draw : all) {
      CAPTURE(draw.name);
      const std::vector<float> found = draw.op(key).to_vector();
      CHECK(found == draw.op(by_value).to_vector());
      CHECK(found != draw.op(other).to_vector());
    }
  }
}

TEST_CASE("a site's key keeps its place, and new sites come beside it") {
  SiteKeys keys(default_device());
  keys.fill(1, 1);
  RandomGenerator generator{1, 1, 0};
  generator.keys = &keys;
  const auto mask = [&](std::uint32_t site) {
    return dropout(ones({2, 64}), generator.dropout_key(0.5f, site)).to_vector();
  };
  const auto by_value = [&](std::uint32_t site) {
    return dropout(ones({2, 64}), {0.5f, generator.seed, generator.step, site}).to_vector();
  };
  const PhiloxKey* first = generator.dropout_key(0.5f, 10).at;
  for (int step = 1; step < 4; ++step) {
    for (std::uint32_t site = 10; site < 13; ++site) CHECK(mask(site) == by_value(site));
    CHECK(generator.dropout_key(0.5f, 10).at == first);
    generator.next_step();
    keys.fill(generator.seed, generator.step);
  }
  CHECK(generator.dropout_key(0, 99).at == nullptr);
  generator.next_step();
  CHECK_THROWS_WITH_AS(generator.dropout_key(0.5f, 10),
                       "[dropout] the device has the keys of seed 1, step 4, not of seed 1, step 5",
                       Error);
}
