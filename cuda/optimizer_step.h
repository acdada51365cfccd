// The arithmetic of an optimizer's step on one element, with the operations of
// core/cpu/optimizer.cpp, and its order of adding a block's squares.
#pragma once

#include "ringlet/core/ops/optimizer.h"
#include "ringlet/cuda/arithmetic.h"

namespace ringlet::cuda {

template <class T>
struct AdamWFactors {
  T scale, decay, one_minus_beta1, beta2, one_minus_beta2, eps, step, root;
};
/// The factors of one segment, from the current values of `args.scalars` and `args.grad_scale`.
template <class T>
RINGLET_HOST_DEVICE AdamWFactors<T> adamw_factors(const AdamWArgs& args, std::int64_t segment) {
  const double* const scalars = args.scalars + 4 * segment;
  const double lr = scalars[0], weight_decay = scalars[1];
  return {static_cast<T>(*args.grad_scale), static_cast<T>(1 - lr * weight_decay),
          static_cast<T>(1 - args.beta1),   static_cast<T>(args.beta2),
          static_cast<T>(1 - args.beta2),   static_cast<T>(args.eps),
          static_cast<T>(-lr / scalars[2]), static_cast<T>(1 / ::sqrt(scalars[3]))};
}

template <class T>
RINGLET_HOST_DEVICE void adamw_element(const AdamWFactors<T>& f, T& param, T grad, T& m, T& v) {
  const T g = grad * f.scale;
  m = multiply_add(f.one_minus_beta1, g - m, m);
  v = multiply_add(f.one_minus_beta2 * g, g, f.beta2 * v);
  param = multiply_add(f.step, m / multiply_add(square_root(v), f.root, f.eps), param * f.decay);
}

template <class T>
struct SGDFactors {
  T scale, decay, momentum, lr;
  bool has_momentum, nesterov;
};
template <class T>
RINGLET_HOST_DEVICE SGDFactors<T> sgd_factors(const SGDArgs& args, std::int64_t segment) {
  const double* const scalars = args.scalars + 2 * segment;
  return {static_cast<T>(*args.grad_scale), static_cast<T>(scalars[1]),
          static_cast<T>(args.momentum),    static_cast<T>(-scalars[0]),
          args.momentum_buffer != nullptr,  args.nesterov};
}

/// `buffer` is used only with momentum.
template <class T>
RINGLET_HOST_DEVICE void sgd_element(const SGDFactors<T>& f, T& param, T grad, T& buffer) {
  T g = multiply_add(f.decay, param, grad * f.scale);
  if (f.has_momentum) {
    buffer = multiply_add(f.momentum, buffer, g);
    g = f.nesterov ? multiply_add(f.momentum, buffer, g) : buffer;
  }
  param = multiply_add(f.lr, g, param);
}

// ---- norms --------------------------------------------------------------------------------

/// A block's squares are added by 32 lanes; lane l adds those of x[l], x[l + 32], …. Then lanes at
/// these distances are added in pairs, until each has the sum.
inline constexpr int kNormLanes = 32;
inline constexpr int kNormFolds = 5;
RINGLET_HOST_DEVICE constexpr int norm_fold(int i) {
  return i == 0 ? 8 : i == 1 ? 16 : i == 2 ? 4 : i == 3 ? 2 : 1;
}

/// The share of `lane` in the n <= kNormBlock elements at x; `wide` converts one to double.
template <class T, class Wide>
RINGLET_HOST_DEVICE double norm_of_lane(const T* x, int n, int lane, Wide&& wide) {
  double total = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 16
#endif
  for (int i = lane; i < n; i += kNormLanes) {
    const double value = wide(x[i]);
    total = multiply_add(value, value, total);
  }
  return total;
}

}  // namespace ringlet::cuda
