// An op with its gradient, and a module that uses it, both our own.
#pragma once

#include <cmath>

#include "ringlet.h"

namespace ag = ringlet::autograd;
using ringlet::Tensor;
using ringlet::Variable;

// f(x, a) for x (N, C) and a (C), in f32 or f64, on the threads of x's device.
template <class F>
Tensor each(const Tensor& x, const Tensor& a, F f) {
  RINGLET_CHECK_EQ(x.size(-1), a.numel(), "[snake] columns and rates differ");
  Tensor out = ringlet::empty_like(x);
  const auto run = [&]<class T>(T) {
    const T *from = x.data<T>(), *rate = a.data<T>();  // throws where a's dtype is another
    T* to = out.mutable_data<T>();
    ringlet::parallel_for(x.device(), x.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = f(from[i], rate[i % a.numel()]);
    });
  };
  x.dtype() == ringlet::DType::f64 ? run(double{}) : run(float{});
  return out;
}

// y = x + sin(a x)^2 / a, an activation that can represent periodic functions (Ziyin et al.,
// NeurIPS 2020).
inline Variable snake(const Variable& x, const Variable& a) {
  Tensor y = each(x.tensor(), a.tensor(), [](auto v, auto r) {
    const auto s = std::sin(r * v);
    return v + s * s / r;
  });
  const auto backward = [x = ag::Saved(x), a = ag::Saved(a)](const Tensor& grad,
                                                             ag::Gradients& grads) {
    const Tensor& in = x.tensor(grads);
    const Tensor& rate = a.tensor(grads);
    if (grads[0].needed()) {
      const Tensor dx = each(in, rate, [](auto v, auto r) { return 1 + std::sin(2 * r * v); });
      grads[0].set(ringlet::mul(grad, dx));
    }
    if (grads[1].needed()) {
      const Tensor da = each(in, rate, [](auto v, auto r) {
        const auto s = std::sin(r * v);
        return v * std::sin(2 * r * v) / r - s * s / (r * r);
      });
      grads[1].set(ringlet::sum_to(ringlet::mul(grad, da), rate.shape()));
    }
  };
  return ag::record("snake", std::move(y), {x, a}, backward);
}

struct Wave final : ringlet::nn::Layer<Wave> {
  explicit Wave(std::int64_t h)  // hidden units
      : in(register_parameter("in", ringlet::normal({h, 1}))),
        bias(register_parameter("bias", ringlet::normal({h}))),
        rate(register_parameter("rate", ringlet::ones({h}))),
        out(register_parameter(
            "out", ringlet::normal({1, h}, 0, 1 / std::sqrt(static_cast<double>(h))))) {}
  ringlet::nn::Parameter in, bias, rate, out;
  Variable forward(const Variable& x) {  // (N, 1) -> (N, 1)
    return ag::linear(snake(ag::linear(x, in, bias), rate), out);
  }
};
