// CUDA's permutations, run word by word and tile by tile on the host, equal the CPU's.
#include "ringlet/cuda/permute_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace ringlet::cuda {
namespace {

PermuteArgs args_of(const Tensor& x, const std::vector<int>& axes, Tensor& out) {
  std::vector<std::int64_t> strides(axes.size());
  std::int64_t stride = 1;
  for (int i = x.dim() - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = stride;
    stride *= x.size(i);
  }
  PermuteArgs args{out.mutable_bytes(), x.bytes(), x.dim(), {}, {}, 4};
  for (int i = 0; i < x.dim(); ++i) {
    const int axis = axes[static_cast<std::size_t>(i)];
    args.sizes[i] = x.size(axis);
    args.in_strides[i] = strides[static_cast<std::size_t>(axis)];
  }
  return args;
}

void move_rows(const PermuteArgs& args) {
  const std::size_t word = row_word(args);
  const Strided<2> places = plan_rows(args, word);
  for (std::int64_t i = 0; i < places.numel; ++i) {
    std::int64_t at[2];
    places.offsets(i, at);
    const auto nbytes = static_cast<std::int64_t>(word);
    std::copy_n(static_cast<const char*>(args.in) + at[0] * nbytes, word,
                static_cast<char*>(args.out) + at[1] * nbytes);
  }
}

void turn(const PermuteArgs& args) {
  const TurnedTiles plan = plan_turned_tiles(args);
  const auto* in = static_cast<const float*>(args.in);
  auto* out = static_cast<float*>(args.out);
  for (std::int64_t unit = 0; unit < plan.units(); ++unit) {
    const TurnedTile at = turned_tile(plan, unit);
    for (std::int64_t y = 0; y < kPermuteTile && at.b + y < plan.b_size; ++y)
      for (std::int64_t x = 0; x < kPermuteTile && at.a + x < plan.a_size; ++x)
        out[at.out + x * plan.a_out_stride + y] = in[at.in + y * plan.b_in_stride + x];
  }
}

void check_permutations(const Shape& shape) {
  Tensor x = empty(shape);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.mutable_data<float>()[i] = static_cast<float>(i);
  std::vector<int> axes(static_cast<std::size_t>(shape.dim()));
  std::iota(axes.begin(), axes.end(), 0);
  do {
    const Tensor expected = permute(x, axes);
    Tensor out = full(expected.shape(), -1);
    const PermuteArgs args = merged(args_of(x, axes, out));
    moves_rows(args) ? move_rows(args) : turn(args);
    CAPTURE(shape);
    CHECK(std::equal(out.data<float>(), out.data<float>() + out.numel(), expected.data<float>()));
  } while (std::next_permutation(axes.begin(), axes.end()));
}

TEST_CASE("cuda permute: all permutations of some shapes") {
  check_permutations({});
  check_permutations({1});
  check_permutations({5});
  check_permutations({40, 70});
  check_permutations({3, 33, 34});
  check_permutations({2, 1, 37, 4});
  check_permutations({2, 3, 4, 5, 2});
}

TEST_CASE("cuda words: the widest that divides all") {
  alignas(16) char memory[32];
  CHECK(WidestWord().fits(memory).fits(64).nbytes() == 16);
  CHECK(WidestWord().fits(memory).fits(24).nbytes() == 8);
  CHECK(WidestWord().fits(memory + 4).fits(64).nbytes() == 4);
  CHECK(WidestWord().fits(memory + 1).fits(64).nbytes() == 1);
}

}  // namespace
}  // namespace ringlet::cuda
