#include "ringlet/core/ops/optimizer.h"

#include <cmath>

#include "../oracle.h"
#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/ops/clip.h"
#include "ringlet/core/ops/elementwise.h"

using namespace ringlet;

namespace {

/// Values in (-1, 1) that differ from place to place.
Tensor wave(std::int64_t n, double phase) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(phase + static_cast<double>(i) * 0.7310585));
  return tensor(values, {n});
}

/// n parameters and the state of AdamW, and n of SGD.
struct BothSteps {
  explicit BothSteps(std::int64_t n)
      : grad(wave(n, 3)), param(wave(n, 1)), m(wave(n, 2)), v(ones({n})), other(wave(n, 4)) {}
  void step(std::int64_t begin, std::int64_t end, const StepScalars& adamw,
            const StepScalars& sgd) {
    const auto part = [=](const Tensor& x) { return x.slice(begin, end); };
    Tensor param_part = part(param), m_part = part(m), v_part = part(v), other_part = part(other);
    Tensor none;
    adamw_(param_part, part(grad), m_part, v_part, adamw);
    sgd_(other_part, part(grad), none, sgd);
  }
  std::vector<std::vector<float>> bits() const {
    return {param.to_vector(), m.to_vector(), v.to_vector(), other.to_vector()};
  }
  const Tensor grad;
  Tensor param, m, v, other;
};

AdamWConstants adamw_constants(const Oracle& ops, const std::string& c) {
  return {.beta1 = ops.scalar(c + "/beta1"),
          .beta2 = ops.scalar(c + "/beta2"),
          .eps = ops.scalar(c + "/eps")};
}

}  // namespace

TEST_CASE("five steps of AdamW equal PyTorch's") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("adamw"))
    for (DType dtype : {DType::f64, DType::f32}) {
      const AdamWConstants constants = adamw_constants(ops, c);
      const double lr = ops.scalar(c + "/lr"), decay = ops.scalar(c + "/weight_decay");
      Tensor param = ops.tensor(c + "/start", dtype);
      Tensor exp_avg = zeros_like(param), exp_avg_sq = zeros_like(param);
      const Tensor gradients = ops.tensor(c + "/gradients", dtype);
      // In f64 only the oracle's rounding remains. In f32 a step rounds the parameter twice, and
      // its update, at most lr large, a few times more.
      const double rounding = dtype == DType::f64 ? 0 : kF32;
      for (int k = 1; k <= 5; ++k) {
        adamw_(param, gradients[k - 1], exp_avg, exp_avg_sq,
               step_scalars(adamw_scalars(lr, decay, k, constants)), constants);
        check_close(param, ops.tensor(c + "/steps")[k - 1], kF32 + 3 * k * rounding, c);
      }
      check_close(exp_avg, ops.tensor(c + "/exp_avg"), kF32 + 3 * 5 * rounding, c);
      check_close(exp_avg_sq, ops.tensor(c + "/exp_avg_sq"), kF32 + 4 * 5 * rounding, c);
    }
}

TEST_CASE("a step cut anywhere gives the same bits") {
  const std::int64_t n = 10007;
  const StepScalars adamw = step_scalars(adamw_scalars(0.01, 0.1, 3), 0.37);
  const StepScalars sgd = step_scalars({1e-3, 0.1});
  BothSteps whole(n), cut(n);
  whole.step(0, n, adamw, sgd);
  const std::int64_t edges[] = {0, 1, 2, 17, 4096, 4099, 9999, n};
  for (int i = 0; i < 7; ++i) cut.step(edges[i], edges[i + 1], adamw, sgd);
  CHECK(whole.bits() == cut.bits());
}

TEST_CASE("segments have the bits of steps of their own, and between them nothing changes") {
  const std::int64_t n = 40007;  // more than one thread's part
  const std::vector<StepSegment> segments = {{3, 4}, {4, 17}, {20, 33000}, {33000, n}};
  BothSteps whole(n), apart(n);
  std::vector<double> values, rates;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto [begin, end] = segments[i];
    const auto step = static_cast<std::int64_t>(i + 1);
    const double decay = i == 0 ? 0.1 : i == 2 ? 0.3 : 0;
    const std::vector<double> own = adamw_scalars(0.01, decay, step);
    const std::vector<double> rate = {static_cast<double>(step), decay};
    values.insert(values.end(), own.begin(), own.end());
    rates.insert(rates.end(), rate.begin(), rate.end());
    apart.step(begin, end, step_scalars(own, 0.37), step_scalars(rate, 0.37));
  }
  StepScalars adamw = step_scalars(values, 0.37), sgd = step_scalars(rates, 0.37);
  adamw.segments = sgd.segments = segment_table(segments);
  whole.step(0, n, adamw, sgd);
  CHECK(whole.bits() == apart.bits());
  CHECK(whole.param[18].item() == BothSteps(n).param[18].item());
}

TEST_CASE("AdamW has the same bits with a gradient's blocks, and does not read those of zeros") {
  const std::int64_t n = 5 * kNormBlock + 7;
  const StepScalars scalars = step_scalars(adamw_scalars(0.01, 0.1, 3), 0.37);
  for (const std::int64_t begin : {0, 1, 4}) {  // a tile of the step in one block, or in two
    const auto part = [=](const Tensor& x) { return x.slice(begin, n); };
    Tensor grad = part(wave(n, 3));
    grad.slice(kNormBlock - 5, 3 * kNormBlock + 5).zero_();  // two whole blocks
    grad.slice(4 * kNormBlock, n - begin).zero_();
    const Tensor blocks = squared_norm_blocks(grad);
    const auto stepped = [&](const Tensor& with) {
      BothSteps all(n);
      Tensor param = part(all.param), m = part(all.m), v = part(all.v);
      adamw_(param, grad, m, v, scalars, {}, {}, with);
      return all.bits();
    };
    const auto expected = stepped({});
    CHECK(stepped(blocks) == expected);
    CHECK(blocks.to_vector<double>()[1] == 0);
    CHECK(blocks.to_vector<double>()[3] != 0);
    // A whole block is of one tile, or of two with a part of a block that is not zeros.
    if (default_device().type != DeviceType::cuda || begin == 1) continue;
    grad.slice(kNormBlock, 2 * kNormBlock).copy_(full({kNormBlock}, NAN));
    CHECK(stepped(blocks) == expected);
  }
}

TEST_CASE("AdamW reads every gradient of f64: a small number's square may be 0") {
  Tensor param = zeros({2}, DType::f64), m = zeros_like(param), v = zeros_like(param);
  const Tensor grad = tensor(std::vector<double>{1e-200, 0}, {2});
  const Tensor blocks = squared_norm_blocks(grad);
  CHECK(blocks.to_vector<double>()[0] == 0);
  adamw_(param, grad, m, v, step_scalars(adamw_scalars(0.01, 0, 1)), {}, {}, blocks);
  CHECK(m.to_vector<double>()[0] > 0);
}

TEST_CASE("a step and a norm have the CPU's bits on every device, segments' edges included") {
  if (cpu::isa() == cpu::Isa::portable) return;  // it rounds a b + c twice
  const std::vector<StepSegment> segments = {{1, 2},      {2, 7},       {7, 103},    {103, 106},
                                             {113, 9113}, {9113, 9241}, {9241, 9272}};
  std::vector<double> adamw_values, rates;
  for (std::int64_t i = 0; i < 7; ++i) {
    const bool decays = i < 2 || i == 3 || i == 6;
    for (const double x : adamw_scalars(0.01, decays ? 0.1 : 0, 1 + i % 3))
      adamw_values.push_back(x);
    for (const double x : {0.1 / static_cast<double>(i + 1), decays ? 0.2 : 0}) rates.push_back(x);
  }
  const auto results = [&](Device device, DType dtype) {
    const auto at = [&](double phase) { return wave(9300, phase).to(dtype).to(device); };
    const auto scalars = [&](const std::vector<double>& values) {
      StepScalars made = step_scalars(values, 0.37, device);
      made.segments = segment_table(segments, device);
      return made;
    };
    Tensor param = at(1), m = at(3), v = mul(at(4), at(4)), none;
    Tensor plain = at(5), heavy = at(5), ahead = at(5), buffer = at(7), buffer_ahead = at(7);
    for (int step = 0; step < 3; ++step) {
      adamw_(param, at(2), m, v, scalars(adamw_values));
      sgd_(plain, at(6), none, scalars(rates));
      sgd_(heavy, at(6), buffer, scalars(rates), {.momentum = 0.9});
      sgd_(ahead, at(6), buffer_ahead, scalars(rates), {.momentum = 0.9, .nesterov = true});
    }
    std::vector<std::vector<double>> all;
    for (const Tensor& x : {param, m, v, plain, heavy, ahead, buffer}) {
      all.push_back(x.to_vector<double>());
      for (const std::int64_t n : {1, 5, 33, 4097, 9300})
        all.push_back(squared_norm_blocks(x.slice(0, n)).to_vector<double>());
    }
    return all;
  };
  for (const DType dtype : {DType::f32, DType::f64})
    CHECK(results(default_device(), dtype) == results(Device{}, dtype));
}

TEST_CASE("bad arguments of a step") {
  Tensor param = zeros({3}), state = zeros({3}), other = zeros({4}), none;
  const Tensor grad = zeros({3});
  const StepScalars adamw = step_scalars(adamw_scalars(1e-3, 0, 1)), sgd = step_scalars({1e-3, 0});
  CHECK_THROWS_AS(adamw_(param, grad, state, other, adamw), Error);
  CHECK_THROWS_WITH(adamw_(param, grad, state, state, sgd), "[adamw] elements of scalars: 2 != 4");
  CHECK_THROWS_AS(adamw_scalars(1e-3, 0, 0), Error);
  CHECK_THROWS_AS(sgd_(param, grad, none, sgd, {.momentum = 0.9}), Error);
  CHECK_THROWS_AS(sgd_(param, grad, none, sgd, {.nesterov = true}), Error);
  CHECK_THROWS_WITH(sgd_(param, grad, none, {tensor({1e-3f}), sgd.grad_scale, sgd.segments}),
                    "[sgd] dtype of scalars: f32 != f64");
  const Tensor two = segment_table({{0, 1}, {2, 3}});
  CHECK_THROWS_WITH(sgd_(param, grad, none, {sgd.values, sgd.grad_scale, two}),
                    "[sgd] elements of scalars: 2 != 4");
  CHECK_THROWS_WITH(sgd_(param, grad, none, {sgd.values, sgd.grad_scale, two.to(DType::f64)}),
                    "[sgd] dtype of segments: f64 != i64");
  Tensor half = param.to(DType::bf16);
  CHECK_THROWS_WITH(sgd_(half, half, none, sgd), "[sgd] does not take bf16 tensors");
}

TEST_CASE("a step reads what its scalars hold when it runs") {
  Tensor param = tensor({1.f}), none;
  StepScalars scalars = step_scalars({0.5, 0});
  sgd_(param, tensor({1.f}), none, scalars);
  CHECK(param.item() == 0.5);
  scalars.values.slice(0, 1).fill_(0.125);
  scalars.grad_scale.fill_(2);
  sgd_(param, tensor({1.f}), none, scalars);
  CHECK(param.item() == 0.25);
}

TEST_CASE("a gradient scale that is no number updates nothing") {
  Tensor param = ones({3}), exp_avg = ones({3}), exp_avg_sq = ones({3}), buffer = ones({3});
  const Tensor grad = ones({3}), same = ones({3});
  adamw_(param, grad, exp_avg, exp_avg_sq, step_scalars(adamw_scalars(0.1, 0, 1), NAN));
  sgd_(param, grad, buffer, step_scalars({0.1, 0}, NAN), {.momentum = 0.9});
  for (const Tensor& left : {param, exp_avg, exp_avg_sq, buffer})
    CHECK(left.to_vector() == same.to_vector());
}

TEST_CASE("the norm of blocks and the factor that clips to it") {
  const auto clip = [](const std::vector<double>& blocks, double max_norm, bool check = true) {
    return clip_factor(tensor(blocks, {static_cast<std::int64_t>(blocks.size())}), max_norm, check)
        .to_vector<double>();
  };
  CHECK(clip({9, 16}, 1) == std::vector<double>{5, 1 / (5 + 1e-6), 2});
  CHECK(clip({9, 16}, 10) == std::vector<double>{5, 1, 2});
  CHECK(clip({9, 16}, 0) == std::vector<double>{5, 1, 2});
  CHECK(clip({}, 1) == std::vector<double>{0, 1, 0});
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    CHECK(std::isnan(clip({1, bad}, 1)[1]));
    CHECK(std::isnan(clip({1, bad}, 0)[1]));
    CHECK_FALSE(std::isfinite(clip({1, bad}, 1)[0]));
    CHECK(clip({1, bad, bad}, 1)[2] == 1);
    CHECK_FALSE(std::isnan(clip({1, bad}, 1, false)[1]));
  }
}

TEST_CASE("behind a factor that is none every other is, until it is written anew") {
  const Tensor good = tensor<double>({9, 16});
  Tensor out = clip_factor(tensor<double>({9, 16, NAN}), 1, true);
  const auto clip = [&](bool check) {
    clip_factor_into(out, good, 10, check);
    return out.to_vector<double>();
  };
  const std::vector<double> stays = clip(true);
  CHECK(std::isnan(stays[0]));
  CHECK(std::isnan(stays[1]));
  CHECK(stays[2] == 2);
  out.zero_();
  CHECK(clip(true) == std::vector<double>{5, 1, 2});
  out.fill_(NAN);
  CHECK(clip(false) == std::vector<double>{5, 1, 2});
}

TEST_CASE("a norm adds its blocks in the order of core/ops/clip.h, however many there are") {
  for (const std::int64_t n : {1, 5, 1023, 1024, 1025, 27000}) {
    CAPTURE(n);
    const std::vector<double> blocks = scale(wave(n, 1).to(DType::f64), 1e3).to_vector<double>();
    std::vector<double> squares;
    for (const double x : blocks) squares.push_back(x * x);
    std::vector<double> lanes(kClipLanes);
    for (std::size_t i = 0; i < squares.size(); ++i) lanes[i % kClipLanes] += squares[i];
    for (std::size_t half = kClipLanes / 2; half > 0; half /= 2)
      for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    CHECK(clip_factor(tensor(squares, {n}), 0, true)[0].item<double>() == std::sqrt(lanes[0]));
  }
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
    // Sums of up to 4096 positive terms; two orders differ by at most that many roundings.
    check_close(tensor(blocks, {count}), tensor(expected, {count}), 4096 * kF64);
    for (std::int64_t b = 1; b < 6; ++b) {
      const auto shard = squared_norm_blocks(x.slice(b * kNormBlock, n)).to_vector<double>();
      CHECK(shard == std::vector<double>(blocks.begin() + b, blocks.end()));
    }
  }
  CHECK(squared_norm_blocks(empty({0})).numel() == 0);
  CHECK(std::isinf(squared_norm_blocks(tensor({INFINITY})).item<double>()));
}

TEST_CASE("a step rounds what it updates, and nothing else") {
  const std::int64_t n = 5000;
  // Odd edges, elements outside all segments, and positions where no pack of both dtypes can begin.
  const Tensor segments = segment_table({{0, 3}, {10, 4111}, {4111, 4990}});
  for (const std::int64_t skew : {0, 1})
    for (const double grad_scale : {1.0, static_cast<double>(NAN)})
      for (const bool adamw : {true, false}) {
        CAPTURE(skew);
        CAPTURE(adamw);
        Tensor param = wave(n, 1), m = wave(n, 3), v = mul(m, m);
        const Tensor grad = wave(n, 2), before = param.clone();
        Tensor all = full({n + skew}, 7, DType::bf16), rounded = all.slice(skew, n + skew);
        std::vector<double> values;
        for (int segment = 0; segment < 3; ++segment)
          for (const double x : adamw ? std::vector{1e-2, 0.01, 0.1, 0.1} : std::vector{1e-2, 0.0})
            values.push_back(x);
        StepScalars scalars = step_scalars(values, grad_scale);
        scalars.segments = segments;
        Tensor plain = param.clone(), plain_m = m.clone(), plain_v = v.clone();
        if (adamw) {
          adamw_(param, grad, m, v, scalars, {}, rounded);
          adamw_(plain, grad, plain_m, plain_v, scalars);
        } else {
          sgd_(param, grad, m, scalars, {.momentum = 0.9}, rounded);
          sgd_(plain, grad, plain_m, scalars, {.momentum = 0.9});
        }
        CHECK(param.to_vector() == plain.to_vector());
        const auto expected = param.to(DType::bf16).to_vector(), got = rounded.to_vector();
        const auto is_updated = [](std::int64_t i) { return i < 3 || (i >= 10 && i < 4990); };
        for (std::int64_t i = 0; i < n; ++i)
          CHECK(got[i] == (is_updated(i) && grad_scale == 1 ? expected[i] : 7));
      }
  Tensor param = wave(8, 1), none, short_one = zeros({7}, DType::bf16);
  const StepScalars scalars = step_scalars({0.1, 0});
  CHECK_THROWS_WITH(sgd_(param, wave(8, 2), none, scalars, {}, short_one),
                    "[sgd] elements of rounded: 7 != 8");
  CHECK_THROWS_WITH(sgd_(param, wave(8, 2), none, scalars, {}, zeros({8})),
                    "[sgd] f32 parameters are not rounded to f32");
}
