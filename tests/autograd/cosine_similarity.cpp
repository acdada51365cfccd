#include "ringlet/autograd/functions/cosine_similarity.h"

#include "../oracle.h"
#include "check.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("gradients of normalize and of cosine similarities") {
  CHECK_GRADIENTS([](const Inputs& in) { return normalize(in[0]); }, input({3, 18}));
  CHECK_GRADIENTS([](const Inputs& in) { return normalize(in[0], 100); }, input({3, 4}));
  CHECK_GRADIENTS([](const Inputs& in) { return cosine_similarity(in[0], in[1]); }, input({3, 18}),
                  input({3, 18}));
  CHECK_GRADIENTS([](const Inputs& in) { return cosine_similarity(in[0], in[1], 1.5); },
                  input({3, 4}), input({3, 4}, 2, 3));
  CHECK_GRADIENTS([](const Inputs& in) { return cosine_similarity_matrix(in[0], in[1]); },
                  input({3, 5}), input({4, 5}));
}

TEST_CASE("the matrix holds the cosines of all pairs") {
  const Variable a(tensor({1.f, 0.f, 3.f, 4.f}).view({2, 2}));
  const Variable b(tensor({0.f, 2.f, 5.f, 0.f}).view({2, 2}));
  CHECK(cosine_similarity_matrix(a, b).tensor().to_vector() ==
        std::vector<float>{0, 1, 0.8f, 0.6f});
}

TEST_CASE("normalize agrees with PyTorch") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("normalize")) {
    const Variable x(ops.tensor(c + "/x"), true);
    const Variable y = normalize(x, ops.scalar(c + "/eps"));
    y.backward(ops.tensor(c + "/grad_y"));
    const double unit = (4 + static_cast<double>(x.size(-1))) * kF32;
    check_close(y.tensor(), ops.tensor(c + "/y"), unit, c);
    check_close(x.grad(), ops.tensor(c + "/grad_x"), 2 * unit, c);
  }
}

TEST_CASE("cosine_similarity agrees with PyTorch") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("cosine_similarity")) {
    const Variable a(ops.tensor(c + "/a"), true), b(ops.tensor(c + "/b"), true);
    const Variable y = cosine_similarity(a, b, ops.scalar(c + "/eps"));
    y.backward(ops.tensor(c + "/grad_y"));
    // Inner products of C terms, each within C roundings; cosines are at most 1.
    const double unit = (6 + static_cast<double>(a.size(-1))) * kF32;
    check_close(y.tensor(), ops.tensor(c + "/y"), unit, c, 1);
    check_close(a.grad(), ops.tensor(c + "/grad_a"), 2 * unit, c);
    check_close(b.grad(), ops.tensor(c + "/grad_b"), 2 * unit, c);
  }
}
