#include "ringlet/nn/attention.h"

#include "../autograd/check.h"
#include "../device.h"
#include "../oracle.h"
#include "ringlet/core/ops/index.h"

using namespace ringlet;
using namespace ringlet::nn;

namespace {

Tensor ids_of(const std::vector<std::int32_t>& ids) {
  return tensor(ids, {static_cast<std::int64_t>(ids.size())});
}

}  // namespace

TEST_CASE("gradients of self-attention: input, projections, relative bias, dropout on") {
  const SelfAttention::Sentences sentences{ids_of({0, 1, 4, 9}), ids_of({3, 8, 9})};
  for (double p : {0.0, 0.3}) {
    CAPTURE(p);
    SelfAttention attention(6, {.heads = 2, .dropout = p});
    std::vector<Variable> inputs{autograd::input({9, 6}), autograd::input({32, 2})};
    for (const Parameter& parameter : attention.parameters()) {
      parameter.set_tensor(autograd::input(parameter.shape()).tensor());
      inputs.push_back(parameter);
    }
    const auto report = autograd::gradcheck(
        [&](const std::vector<Variable>& in) { return attention(in[0], sentences, in[1]); },
        inputs);
    INFO("input " << report.input << " element " << report.element << " error " << report.error);
    CHECK(report.ok());
  }
}

TEST_CASE("a sentence attends to itself alone, wherever it lies and however it is padded") {
  SelfAttention attention(8, {.heads = 2, .dropout = 0.2});
  const Tensor x = normal({10, 8});
  const SelfAttention::Sentences both{ids_of({0, 3, 10}), ids_of({4, 7})};
  const SelfAttention::Sentences second{ids_of({0, 7}), ids_of({7})};
  const Variable packed = attention(Variable(x), both);                // (10, 8)
  const Variable alone = attention(Variable(x.slice(3, 10)), second);  // (7, 8)
  if (has_shape_free_products)
    CHECK(alone.tensor().to_vector() == packed.tensor().slice(3, 10).to_vector());
  check_close(alone.tensor(), packed.tensor().slice(3, 10), 16 * kF32);

  const Tensor longer = concat({x.slice(3, 10), full({2, 8}, 100)}, 0);
  const SelfAttention::Sentences with_padding{ids_of({0, 9}), ids_of({7}), ids_of({7})};
  const Variable padded = attention(Variable(longer), with_padding);  // (9, 8)
  check_close(padded.tensor().slice(0, 7), alone.tensor(), 16 * kF32);
}

TEST_CASE("dropout acts in training only") {
  SelfAttention attention(8, {.heads = 2, .dropout = 0.5}), plain(8, {.heads = 2});
  for (const NamedParameter& named : plain.named_parameters())
    named.parameter.mutable_tensor().copy_(attention.parameter(named.name).tensor());
  const Variable x(normal({5, 8}));
  const SelfAttention::Sentences sentences{ids_of({0, 5})};
  CHECK(attention(x, sentences).tensor().to_vector() != plain(x, sentences).tensor().to_vector());
  attention.eval();
  CHECK(attention(x, sentences).tensor().to_vector() == plain(x, sentences).tensor().to_vector());
}

TEST_CASE("projections are called as the owner says, query, key and value side by side") {
  const SelfAttention attention(4, {.query = "q", .key = "k", .value = "v", .output = "o"});
  std::vector<std::string> names;
  for (const NamedParameter& named : attention.named_parameters()) names.push_back(named.name);
  CHECK(names == std::vector<std::string>{"q.weight", "k.weight", "v.weight", "q.bias", "k.bias",
                                          "v.bias", "o.weight", "o.bias"});
  CHECK_THROWS_WITH_AS(SelfAttention(6, {.heads = 4}),
                       "[SelfAttention] size 6 is not a multiple of 4 heads", Error);
}
