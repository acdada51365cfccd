#include "ringlet/autograd/functions/attention.h"

#include "../oracle.h"
#include "check.h"

using namespace ringlet;
using namespace ringlet::autograd;

namespace {

Tensor ids_of(const std::vector<std::int32_t>& ids) {
  return tensor(ids, {static_cast<std::int64_t>(ids.size())});
}

// Concatenates (T, n) tensors to (T, 3 n).
Tensor side_by_side(const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t n = q.size(1);
  Tensor out = empty({q.size(0), 3 * n});
  for (std::int64_t t = 0; t < q.size(0); ++t) {
    out[t].view({3, n}).slice(0, 1).copy_(q[t]);
    out[t].view({3, n}).slice(1, 2).copy_(k[t]);
    out[t].view({3, n}).slice(2, 3).copy_(v[t]);
  }
  return out;
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

TEST_CASE("attention agrees with PyTorch") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("attention")) {
    const auto get = [&](const std::string& name) { return ops.tensor(c + name); };
    const bool biased = ops.contains(c + "/relative_bias");
    const Variable qkv(side_by_side(get("/q"), get("/k"), get("/v")), true);
    const Variable bias = biased ? Variable(get("/relative_bias"), true) : Variable();
    const auto heads = static_cast<std::int64_t>(ops.scalar(c + "/heads"));
    const Variable y = attention(qkv, bias, get("/cu_seqlens"), {heads, {}, {}, {}});
    y.backward(get("/grad_y"));
    // A score sums d products. Its absolute error is the relative error of P, and the gradients sum
    // up to L terms with that error each.
    const double size = static_cast<double>(y.size(1)) / static_cast<double>(heads);
    const double unit = (16 + size) * kF32;
    const Tensor grad = side_by_side(get("/grad_q"), get("/grad_k"), get("/grad_v"));
    check_close(y.tensor(), get("/y"), unit, c);
    check_close(qkv.grad(), grad, 2 * unit, c);
    if (biased) check_close(bias.grad(), get("/grad_relative_bias"), 4 * unit, c);
  }
}

TEST_CASE("the bucket of every distance is MPNet's") {
  const Oracle ops("ops");
  const auto distance = ops.tensor("relative_position_bucket.mpnet/distance").to_vector<double>();
  for (const std::string& c : ops.cases("relative_position_bucket")) {
    const auto bucket = ops.tensor(c + "/y").to_vector<double>();
    REQUIRE(bucket.size() == distance.size());
    for (std::size_t i = 0; i < bucket.size(); ++i)
      CHECK(relative_position_bucket(static_cast<std::int64_t>(distance[i])) == bucket[i]);
  }
}
