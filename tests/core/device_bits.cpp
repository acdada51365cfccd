// Ops without inexact sums have the CPU's bits on every device. On the emulated GPU no result
// depends on the order of blocks and warps.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <iterator>

#include "../emulated/emulated.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/layer_norm.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"
#include "ringlet/core/ops/softmax.h"

using namespace ringlet;

namespace {

using ResultBits = std::vector<std::byte>;
using BitOp = std::function<Tensor(const Tensor& x, const Tensor& y)>;  // two (12, 75)

ResultBits result_bits(const Tensor& x) {
  const Tensor there = x.to(Device{});
  return {there.bytes(), there.bytes() + there.nbytes()};
}

Tensor edged_values(std::uint64_t seed, DType dtype, Device device) {
  RandomGenerator generator{.seed = seed};
  auto x = uniform({12, 75}, -2, 2, DType::f32, Device{}, generator).to_vector();
  const float edges[] = {0.f, -0.f, 0x1p-149f, -0x1p-140f, 0x1p127f, INFINITY, -INFINITY, 1.f};
  for (std::size_t i = 0; i < std::size(edges); ++i) x[i + 7 * seed] = edges[i];
  return tensor(x, {12, 75}, Device{}).to(dtype).to(device);
}

BitOp op_of(UnaryOp op) {
  return [op](const Tensor& x, const Tensor&) { return unary(op, x); };
}
BitOp op_of(BinaryOp op) {
  return [op](const Tensor& x, const Tensor& y) { return binary(op, x, y); };
}
BitOp cast_to(DType dtype) {
  return [dtype](const Tensor& x, const Tensor&) { return x.to(dtype); };
}

std::vector<BitOp> exact_ops() {
  const auto lines = [](const Tensor& like) {
    return tensor(std::vector<std::int64_t>{3, 0, 11, 3, 7}, {5}, like.device());
  };
  return {
      op_of(UnaryOp::neg),
      op_of(UnaryOp::abs),
      op_of(UnaryOp::relu),
      op_of(UnaryOp::sign),
      op_of(BinaryOp::add),
      op_of(BinaryOp::mul),
      op_of(BinaryOp::maximum),
      op_of(BinaryOp::minimum),
      op_of(BinaryOp::lt),
      op_of(BinaryOp::eq),
      cast_to(DType::bf16),
      cast_to(DType::f16),
      cast_to(DType::f64),
      [](const Tensor& x, const Tensor&) {
        return permute(x, {1, 0});
      },
      [](const Tensor& x, const Tensor& y) {
        return concat({x, y, x}, 1);
      },
      [](const Tensor& x, const Tensor&) { return pad(narrow(x, 1, 3, 31), 0, 1, 2); },
      [=](const Tensor& x, const Tensor&) { return index_select(x, 0, lines(x)); },
      [](const Tensor& x, const Tensor&) { return argmax(x, 1); },
      [](const Tensor& x, const Tensor&) { return argmin(x, 0); },
      [](const Tensor& x, const Tensor&) { return reduce(ReduceOp::max, x, {1}); },
      [](const Tensor& x, const Tensor&) {
        return dropout(x, {.p = 0.3f, .seed = 7, .step = 2, .site = 3});
      },
  };
}

std::vector<BitOp> inexact_ops() {
  return {
      [](const Tensor& x, const Tensor&) { return reduce(ReduceOp::sum, x, {0}); },
      [](const Tensor& x, const Tensor&) {
        return reduce(ReduceOp::mean, x, {0, 1});
      },
      [](const Tensor& x, const Tensor&) { return softmax(x); },
      [](const Tensor& x, const Tensor& y) { return matmul(x, transpose(y)); },
      [](const Tensor& x, const Tensor& y) {
        const Tensor weight = narrow(y, 0, 0, 1).view({75}).to(DType::f32);
        return layer_norm(x, weight, weight, 1e-5).y;
      },
      [](const Tensor& x, const Tensor& y) {
        std::vector<std::int64_t> rows(12 * 75);
        for (std::size_t i = 0; i < rows.size(); ++i)
          rows[i] = static_cast<std::int64_t>(i * i % 4);
        return scatter_add(zeros({4, 75}, x.dtype(), x.device()), 0,
                           tensor(rows, {12, 75}, x.device()), y);
      },
  };
}

/// For a scope, launches are ordered by `seed`.
class LaunchSeed {
 public:
  explicit LaunchSeed(std::uint64_t seed) {
    if (!emulated::configure) return;
    before_ = emulated::settings();
    auto settings = before_;
    settings.seed = seed;
    emulated::configure(settings);
  }
  ~LaunchSeed() {
    if (emulated::configure) emulated::configure(before_);
  }
  LaunchSeed(const LaunchSeed&) = delete;
  LaunchSeed& operator=(const LaunchSeed&) = delete;

 private:
  emulated::Settings before_;
};

}  // namespace

TEST_CASE("exact ops have the CPU's bits, zeros' signs and denormals included") {
  const std::vector<BitOp> ops = exact_ops();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      CAPTURE(dtype);
      CAPTURE(i);
      const auto result = [&](Device device) {
        return result_bits(ops[i](edged_values(1, dtype, device), edged_values(2, dtype, device)));
      };
      CHECK(result(default_device()) == result(Device{}));
    }
  }
}

TEST_CASE("the order of blocks and warps does not change a bit") {
  std::vector<BitOp> ops = exact_ops();
  for (const BitOp& op : inexact_ops()) ops.push_back(op);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = edged_values(3, dtype, default_device()),
                 y = edged_values(4, dtype, default_device());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      CAPTURE(dtype);
      CAPTURE(i);
      const auto result = [&](std::uint64_t seed) {
        const LaunchSeed chosen(seed);
        return result_bits(ops[i](x, y));
      };
      const ResultBits first = result(1);
      for (const std::uint64_t seed : {2, 3, 77}) CHECK(result(seed) == first);
    }
  }
}
