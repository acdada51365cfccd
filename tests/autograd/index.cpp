#include "ringlet/autograd/functions.h"

#include "check.h"

using namespace ringlet;
using namespace ringlet::autograd;

namespace {

Tensor repeated() { return tensor<std::int32_t>({2, 0, 2, 1}, {4}); }
Tensor elements() { return tensor<std::int64_t>({1, 0, 1, 1, 0, 0}, {2, 3}); }

}  // namespace

TEST_CASE("gradients of joining and cutting") {
  for (int axis : {0, 1, -1}) {
    CAPTURE(axis);
    const auto join = [&](const Inputs& in) { return concat({in[0], in[1], in[0]}, axis); };
    CHECK_GRADIENTS(join, input({2, 3, 4}), input({2, 3, 4}));
    const auto pile = [&](const Inputs& in) { return stack({in[0], in[1]}, axis); };
    CHECK_GRADIENTS(pile, input({2, 3}), input({2, 3}));
    const auto cut = [&](const Inputs& in) {
      const std::vector<Variable> parts = split(in[0], {1, 2, 1}, axis);
      return parts[0] * parts[2];
    };
    CHECK_GRADIENTS(cut, input({4, 4, 4}));
    CHECK_GRADIENTS([&](const Inputs& in) { return pad(in[0], axis, 1, 2); }, input({2, 3}));
  }
  const auto overlapping = [](const Inputs& in) {
    return narrow(in[0], 1, 0, 3) * narrow(in[0], 1, 1, 3);
  };
  CHECK_GRADIENTS(overlapping, input({2, 5}));
}

TEST_CASE("gradients of permutations") {
  for (const std::vector<int>& axes : {std::vector<int>{1, 2, 0}, {2, 1, 0}, {0, -1, 1}})
    CHECK_GRADIENTS([&](const Inputs& in) { return permute(in[0], axes); }, input({2, 3, 4}));
  CHECK_GRADIENTS([](const Inputs& in) { return transpose(in[0]); }, input({3, 2}));
}

TEST_CASE("gradients by index") {
  CHECK_GRADIENTS([](const Inputs& in) { return index_select(in[0], 0, repeated()); },
                  input({3, 2}));
  CHECK_GRADIENTS([](const Inputs& in) { return index_select(in[0], -1, repeated()); },
                  input({2, 3}));
  CHECK_GRADIENTS([](const Inputs& in) { return gather(in[0], 0, elements()); }, input({2, 3}));
  CHECK_GRADIENTS([](const Inputs& in) { return gather(in[0], 1, elements()); }, input({3, 4}));
  CHECK_GRADIENTS([](const Inputs& in) { return scatter_add(in[0], 1, elements(), in[1]); },
                  input({3, 2}), input({2, 3}));
}

TEST_CASE("a second backward adds to what is there") {
  const Variable x(zeros({3, 2}), true);
  for (int i = 0; i < 2; ++i) index_select(x, 0, repeated()).backward(ones({4, 2}));
  CHECK(x.grad().to_vector() == std::vector<float>{2, 2, 2, 2, 4, 4});
  narrow(x, 0, 1, 1).backward(ones({1, 2}));
  CHECK(x.grad().to_vector() == std::vector<float>{2, 2, 3, 3, 4, 4});
}
