#include "ringlet/core/ops/optimizer.h"

#include <cmath>

#include "../oracle.h"

using namespace ringlet;

namespace {

/// Values in (-1, 1) that differ from place to place.
Tensor wave(std::int64_t n, double phase) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(phase + static_cast<double>(i) * 0.7310585));
  return tensor(values, {n});
}

AdamWStep adamw_step(const Oracle& ops, const std::string& c) {
  return {.lr = ops.scalar(c + "/lr"),
          .beta1 = ops.scalar(c + "/beta1"),
          .beta2 = ops.scalar(c + "/beta2"),
          .eps = ops.scalar(c + "/eps"),
          .weight_decay = ops.scalar(c + "/weight_decay")};
}

}  // namespace

TEST_CASE("five steps of AdamW equal PyTorch's") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("adamw"))
    for (DType dtype : {DType::f64, DType::f32}) {
      AdamWStep step = adamw_step(ops, c);
      Tensor param = ops.tensor(c + "/start", dtype);
      Tensor exp_avg = zeros_like(param), exp_avg_sq = zeros_like(param);
      const Tensor gradients = ops.tensor(c + "/gradients", dtype);
      // In f64 only the oracle's own rounding is left; in f32 a step rounds the parameter twice,
      // and its update, at most lr large, a few times more.
      const double rounding = dtype == DType::f64 ? 0 : kF32;
      for (; step.step <= 5; ++step.step) {
        adamw_(param, gradients[step.step - 1], exp_avg, exp_avg_sq, step);
        check_close(param, ops.tensor(c + "/steps")[step.step - 1],
                    kF32 + 3 * static_cast<double>(step.step) * rounding, c);
      }
      check_close(exp_avg, ops.tensor(c + "/exp_avg"), kF32 + 3 * 5 * rounding, c);
      check_close(exp_avg_sq, ops.tensor(c + "/exp_avg_sq"), kF32 + 4 * 5 * rounding, c);
    }
}

TEST_CASE("five steps of SGD equal PyTorch's") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("sgd"))
    for (DType dtype : {DType::f64, DType::f32}) {
      const SGDStep step{.lr = ops.scalar(c + "/lr"),
                         .momentum = ops.scalar(c + "/momentum"),
                         .weight_decay = ops.scalar(c + "/weight_decay")};
      Tensor param = ops.tensor(c + "/start", dtype);
      Tensor buffer = step.momentum != 0 ? zeros_like(param) : Tensor();
      const Tensor gradients = ops.tensor(c + "/gradients", dtype);
      const double rounding = dtype == DType::f64 ? 0 : kF32;
      for (int k = 1; k <= 5; ++k) {
        sgd_(param, gradients[k - 1], buffer, step);
        check_close(param, ops.tensor(c + "/steps")[k - 1], kF32 + 4 * k * rounding, c);
      }
    }
}

TEST_CASE("Nesterov's momentum looks one step ahead") {
  Tensor param = tensor({1.f}), buffer = zeros({1});
  const SGDStep step{.lr = 0.5, .momentum = 0.5, .nesterov = true};
  sgd_(param, tensor({1.f}), buffer, step);  // b = 1, 1 - 0.5 (1 + 0.5)
  CHECK(param.item() == 0.25);
  sgd_(param, tensor({1.f}), buffer, step);  // b = 1.5, 0.25 - 0.5 (1 + 0.75)
  CHECK(param.item() == -0.625);
  CHECK(buffer.item() == 1.5);
}

TEST_CASE("a step cut anywhere gives the same bits") {
  const std::int64_t n = 10007;
  const AdamWStep step{.lr = 0.01, .step = 3, .grad_scale = 0.37};
  Tensor whole[3] = {wave(n, 1), wave(n, 2), ones({n})};
  Tensor cut[3] = {wave(n, 1), wave(n, 2), ones({n})};
  Tensor sgd_whole = wave(n, 4), sgd_cut = wave(n, 4), none;
  const Tensor grad = wave(n, 3);
  adamw_(whole[0], grad, whole[1], whole[2], step);
  sgd_(sgd_whole, grad, none, {.weight_decay = 0.1});
  const std::int64_t edges[] = {0, 1, 2, 17, 4096, 4099, 9999, n};
  for (int i = 0; i < 7; ++i) {
    Tensor piece[4];
    for (int k = 0; k < 3; ++k) piece[k] = cut[k].slice(edges[i], edges[i + 1]);
    adamw_(piece[0], grad.slice(edges[i], edges[i + 1]), piece[1], piece[2], step);
    piece[3] = sgd_cut.slice(edges[i], edges[i + 1]);
    sgd_(piece[3], grad.slice(edges[i], edges[i + 1]), none, {.weight_decay = 0.1});
  }
  for (int k = 0; k < 3; ++k) CHECK(whole[k].to_vector() == cut[k].to_vector());
  CHECK(sgd_whole.to_vector() == sgd_cut.to_vector());
}

TEST_CASE("bad arguments of a step") {
  Tensor param = zeros({3}), state = zeros({3}), other = zeros({4}), none;
  const Tensor grad = zeros({3});
  CHECK_THROWS_AS(adamw_(param, grad, state, other, {}), Error);
  CHECK_THROWS_AS(adamw_(param, grad, state, state, {.step = 0}), Error);
  CHECK_THROWS_AS(sgd_(param, grad, none, {.momentum = 0.9}), Error);
  CHECK_THROWS_AS(sgd_(param, grad, none, {.nesterov = true}), Error);
  Tensor half = param.to(DType::bf16);
  CHECK_THROWS_WITH(sgd_(half, half, none, {}), "[sgd] does not take bf16 tensors");
}

TEST_CASE("squared norms by blocks: right, and the same for every shard") {
  const std::int64_t n = 5 * kNormBlock + 77;
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor x = wave(n, 0).to(dtype);
    const std::vector<double> values = x.to_vector<double>();
    const std::vector<double> blocks = squared_norm_blocks(x).to_vector<double>();
    REQUIRE(blocks.size() == 6);
    std::vector<double> expected(6);
    for (std::size_t i = 0; i < values.size(); ++i)
      expected[i / static_cast<std::size_t>(kNormBlock)] += values[i] * values[i];
    const auto count = static_cast<std::int64_t>(blocks.size());
    // Sums of up to 4096 positive terms, each order off by at most that many roundings.
    check_close(tensor(blocks, {count}), tensor(expected, {count}), 4096 * kF64);
    for (std::int64_t b = 1; b < 6; ++b) {
      const auto shard = squared_norm_blocks(x.slice(b * kNormBlock, n)).to_vector<double>();
      CHECK(shard == std::vector<double>(blocks.begin() + b, blocks.end()));
    }
  }
  CHECK(squared_norm_blocks(empty({0})).numel() == 0);
  CHECK(std::isinf(squared_norm_blocks(tensor({INFINITY})).item<double>()));
}
