// The arithmetic of an optimizer's step on the device, run here beside the CPU's.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "ringlet/core/cpu/isa.h"
#include "ringlet/cuda/optimizer_step.h"

using namespace ringlet;

namespace {

// The portable instruction set rounds a b + c twice.
bool rounds_as_devices_do() { return cpu::isa() != cpu::Isa::portable; }

template <class T>
std::vector<T> step_values(std::int64_t n, double phase) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(std::sin(phase + static_cast<double>(i) * 0.7310585));
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const Tensor& b) {
  return std::memcmp(a.data(), b.bytes(), a.size() * sizeof(T)) == 0;
}

template <class T>
void check_adamw(std::int64_t n) {
  auto p = step_values<T>(n, 1), g = step_values<T>(n, 2), m = step_values<T>(n, 3);
  auto v = step_values<T>(n, 4);
  for (T& x : v) x *= x;
  const Tensor grad = tensor(g, {n});
  Tensor param = tensor(p, {n}), exp_avg = tensor(m, {n}), exp_avg_sq = tensor(v, {n});
  for (std::int64_t step = 1; step <= 4; ++step) {
    const AdamWConstants how{.weight_decay = 0.1};
    const std::vector<double> scalars = adamw_scalars(0.01, step);
    const double grad_scale = 0.37;
    adamw_(param, grad, exp_avg, exp_avg_sq, step_scalars(scalars, grad_scale), how);
    AdamWArgs args{};
    args.scalars = scalars.data();
    args.grad_scale = &grad_scale;
    args.beta1 = how.beta1;
    args.beta2 = how.beta2;
    args.eps = how.eps;
    args.weight_decay = how.weight_decay;
    const auto factors = cuda::adamw_factors<T>(args);
    for (std::size_t i = 0; i < p.size(); ++i) cuda::adamw_element(factors, p[i], g[i], m[i], v[i]);
  }
  CHECK(same_bits(p, param));
  CHECK(same_bits(m, exp_avg));
  CHECK(same_bits(v, exp_avg_sq));
}

template <class T>
void check_sgd(std::int64_t n, double momentum, bool nesterov) {
  auto p = step_values<T>(n, 5), g = step_values<T>(n, 6), b = std::vector<T>(p.size());
  Tensor param = tensor(p, {n}), buffer = momentum != 0 ? tensor(b, {n}) : Tensor();
  const SGDConstants how{.momentum = momentum, .weight_decay = 0.2, .nesterov = nesterov};
  const double lr = 0.1, grad_scale = 3;
  for (int step = 0; step < 3; ++step) {
    sgd_(param, tensor(g, {n}), buffer, step_scalars({lr}, grad_scale), how);
    SGDArgs args{};
    args.momentum_buffer = momentum != 0 ? b.data() : nullptr;
    args.scalars = &lr;
    args.momentum = how.momentum;
    args.weight_decay = how.weight_decay;
    args.grad_scale = &grad_scale;
    args.nesterov = how.nesterov;
    const auto factors = cuda::sgd_factors<T>(args);
    for (std::size_t i = 0; i < p.size(); ++i) cuda::sgd_element(factors, p[i], g[i], b[i]);
  }
  CHECK(same_bits(p, param));
  if (momentum != 0) CHECK(same_bits(b, buffer));
}

// As the kernel's warps do.
template <class T>
std::vector<double> norms_by_lanes(const std::vector<T>& x) {
  std::vector<double> out;
  const auto n = static_cast<std::int64_t>(x.size());
  for (std::int64_t begin = 0; begin < n; begin += kNormBlock) {
    const auto count = static_cast<int>(n - begin < kNormBlock ? n - begin : kNormBlock);
    double lanes[cuda::kNormLanes];
    for (int lane = 0; lane < cuda::kNormLanes; ++lane)
      lanes[lane] = cuda::norm_of_lane(x.data() + begin, count, lane,
                                       [](T value) { return static_cast<double>(value); });
    for (int fold = 0; fold < cuda::kNormFolds; ++fold) {
      double next[cuda::kNormLanes];
      for (int lane = 0; lane < cuda::kNormLanes; ++lane)
        next[lane] = lanes[lane] + lanes[lane ^ cuda::norm_fold(fold)];
      std::memcpy(lanes, next, sizeof(lanes));
    }
    out.push_back(lanes[0]);
  }
  return out;
}

}  // namespace

TEST_CASE("cuda: a step of AdamW and of SGD has the CPU's bits") {
  if (!rounds_as_devices_do()) return;
  check_adamw<float>(1001);
  check_adamw<double>(101);
  for (double momentum : {0.0, 0.9}) {
    check_sgd<float>(1001, momentum, false);
    check_sgd<double>(101, momentum, false);
  }
  check_sgd<float>(1001, 0.9, true);
}

TEST_CASE("cuda: squared norms have the CPU's bits, short blocks too") {
  for (std::int64_t n : {1, 5, 31, 33, 100, 4095, 4096, 4097, 3 * 4096 + 77}) {
    CAPTURE(n);
    const auto f32 = step_values<float>(n, 7);
    CHECK(squared_norm_blocks(tensor(f32, {n})).to_vector<double>() == norms_by_lanes(f32));
    if (!rounds_as_devices_do()) continue;  // squares of floats are exact doubles
    const auto f64 = step_values<double>(n, 7);
    CHECK(squared_norm_blocks(tensor(f64, {n})).to_vector<double>() == norms_by_lanes(f64));
  }
}
