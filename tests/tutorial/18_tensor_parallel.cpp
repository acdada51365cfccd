// Lesson 18: tensor parallelism. Ranks share one batch and cut each layer: the first weight by its
// output columns, the second by its input rows. Each computes a partial result; their sum is y.
#include <doctest/doctest.h>

#include <iostream>

#include "ringlet.h"

using namespace ringlet;

namespace {

constexpr std::int64_t kTokens = 12, kHidden = 64, kWide = 256;

// A transformer's feed-forward block: wide and back, with a residual.
struct FeedForward : nn::Layer<FeedForward> {
  std::shared_ptr<nn::Linear> up = std::make_shared<nn::Linear>(kHidden, kWide);
  std::shared_ptr<nn::Linear> down = std::make_shared<nn::Linear>(kWide, kHidden);
  FeedForward() {
    register_module("up", up);
    register_module("down", down);
  }
  Variable forward(const Variable& x) { return x + (*down)(up->forward_gelu(x)); }
};

struct SliceStep {
  std::vector<float> output, grad_x;
  std::int64_t kept;   // elements of parameters on this rank
  std::uint64_t sent;  // bytes
};

SliceStep run_step(const comm::Group& group, int slices) {
  manual_seed(13);
  FeedForward block;
  const train::TensorParallel tensor(block, group, {.columns = {"up"}, .rows = {"down"}},
                                     {.slices = slices});
  const Variable x(normal({kTokens, kHidden}), /*requires_grad=*/true);
  const std::uint64_t before = group.stats().bytes_sent;
  const Variable y = block(x);
  autograd::mean(autograd::square(y)).backward();
  return {y.tensor().to_vector(), x.grad().to_vector(), block.num_parameters(),
          group.stats().bytes_sent - before};
}

std::size_t different(const std::vector<float>& a, const std::vector<float>& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 0 : 1;
  return count;
}

}  // namespace

TEST_CASE("18 tensor parallel") {
  const SliceStep whole = run_step({}, 1);
  std::cout << "one device keeps " << whole.kept << " parameters\n"
            << "y and its gradient have " << kTokens * kHidden
            << " numbers of 4 bytes; a rank sends "
            << "2 (n - 1) / n times each\n"
            << "ranks  kept  bytes sent  as computed  outputs unlike n products  unlike one\n";
  for (const int n : {2, 3, 4}) {
    // The reference: one device computes n partial products and adds them by a tree.
    const SliceStep expected = run_step({}, n);
    comm::launch(
        [&](const comm::Group& group) {
          const SliceStep step = run_step(group, 1);
          // An all-reduce of y in forward and one of x's gradient in backward. A layer of an
          // encoder has two such pairs, the other one around attention.
          const auto ranks = static_cast<std::uint64_t>(n);
          const std::uint64_t formula = 4 * (ranks - 1) * kTokens * kHidden * sizeof(float) / ranks;
          CHECK(step.sent == formula);
          CHECK(step.kept < whole.kept / n + kWide);  // down's bias is whole
          CHECK(step.output == expected.output);      // bit for bit
          CHECK(step.grad_x == expected.grad_x);
          // Sums in another order are rounded differently.
          CHECK(different(step.output, whole.output) > 0);
          if (group.rank() > 0) return;
          std::cout << n << "      " << step.kept << "  " << step.sent << "        " << formula
                    << "         " << different(step.output, expected.output)
                    << "                          " << different(step.output, whole.output)
                    << " of " << whole.output.size() << "\n";
        },
        n);
  }
  // Heads that cannot be divided are refused, with the numbers of ranks that divide them.
  nn::SelfAttention attention(kHidden, {.heads = 4});
  CHECK_THROWS_WITH_AS(train::TensorParallel(attention, {}, {.heads = {"*"}}, {.slices = 3}),
                       "[tensor] SelfAttention has 4 heads: expected one of 1, 2, 4 ranks, found 3",
                       InputError);
}
