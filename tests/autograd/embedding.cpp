#include "ringlet/autograd/functions/embedding.h"

#include "../oracle.h"
#include "check.h"

using namespace ringlet;
using namespace ringlet::autograd;

namespace {

Tensor id_tensor(const std::vector<std::int32_t>& ids) {
  return tensor(ids, {static_cast<std::int64_t>(ids.size())});
}

}  // namespace

TEST_CASE("gradients of embedding") {
  const Tensor ids = id_tensor({1, 4, 1, 0});
  CHECK_GRADIENTS([&](const Inputs& in) { return embedding(in[0], ids); }, input({5, 3}));
}

TEST_CASE("gradients of the embedding sum, with and without token types, dropout on") {
  const EmbeddingIds ids{id_tensor({4, 1, 4}), id_tensor({0, 1, 2}), id_tensor({0, 1, 1})};
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
  for (int i = 0; i < 2; ++i) embedding(table, id_tensor({1, 1})).backward(ones({2, 2}));
  CHECK(table.grad().to_vector() == std::vector<float>{0, 0, 4, 4});
}

TEST_CASE("embedding agrees with PyTorch") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("embedding")) {
    const Variable weight(ops.tensor(c + "/weight"), true);
    const Tensor ids = ops.tensor(c + "/ids", DType::i32);
    const Variable y = embedding(weight, ids.view({-1}));
    const Tensor expected = ops.tensor(c + "/y");
    CHECK(y.tensor().to_vector() == expected.to_vector());
    y.backward(ops.tensor(c + "/grad_y").view(y.shape()));
    check_close(weight.grad(), ops.tensor(c + "/grad_weight"), ids.numel() * kF32, c);
  }
}
