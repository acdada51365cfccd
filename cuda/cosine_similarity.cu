#include "ringlet/core/ops/cosine_similarity.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/reduce.cuh"

namespace ringlet::cuda {
namespace {

/// The cosine of a pair of rows, and the norms it divides by.
template <class S>
struct Pair {
  S norm_a, norm_b, cosine;
  bool clamped_a, clamped_b;
};

// All lanes of the warp call and get the result.
template <class T>
__device__ __forceinline__ Pair<compute_t<T>> pair_of(const T* a, const T* b, std::int64_t columns,
                                                      compute_t<T> eps, int lane) {
  using S = compute_t<T>;
  S aa = 0, bb = 0, ab = 0;
#pragma unroll 4
  for (std::int64_t i = lane; i < columns; i += kWarp) {
    const S x = to_compute(a[i]), y = to_compute(b[i]);
    aa = ::fma(x, x, aa);
    bb = ::fma(y, y, bb);
    ab = ::fma(x, y, ab);
  }
  const S norm_a = ::sqrt(warp_sum(aa)), norm_b = ::sqrt(warp_sum(bb));
  Pair<S> pair;
  pair.clamped_a = norm_a < eps;
  pair.clamped_b = norm_b < eps;
  pair.norm_a = pair.clamped_a ? eps : norm_a;
  pair.norm_b = pair.clamped_b ? eps : norm_b;
  pair.cosine = warp_sum(ab) / pair.norm_a / pair.norm_b;
  return pair;
}

template <class T>
__global__ void cosine_rows(compute_t<T>* y, const T* a, const T* b, std::int64_t rows,
                            std::int64_t columns, compute_t<T> eps) {
  for_rows_of_warps(rows, [&](std::int64_t row, int lane) {
    const std::int64_t at = row * columns;
    const auto pair = pair_of(a + at, b + at, columns, eps, lane);
    if (lane == 0) y[row] = pair.cosine;
  });
}

// d cosine / d x = y / (|x| |y|) - x cosine / |x|^2; without the second term below eps.
template <class T, class S>
__device__ __forceinline__ void write_gradient(T* out, const T* x, const T* y, S grad, S norm_x,
                                               S norm_y, S cosine, bool clamped,
                                               std::int64_t columns, int lane) {
  const S across = grad / norm_x / norm_y;
  const S along = clamped ? S{0} : grad * cosine / norm_x / norm_x;
#pragma unroll 4
  for (std::int64_t i = lane; i < columns; i += kWarp)
    out[i] = from_compute<T>(to_compute(y[i]) * across - to_compute(x[i]) * along);
}

// grad_a and grad_b may be null.
template <class T>
__global__ void cosine_backward_rows(T* grad_a, T* grad_b, const compute_t<T>* grad, const T* a,
                                     const T* b, std::int64_t rows, std::int64_t columns,
                                     compute_t<T> eps) {
  for_rows_of_warps(rows, [&](std::int64_t row, int lane) {
    const std::int64_t at = row * columns;
    const auto p = pair_of(a + at, b + at, columns, eps, lane);
    const compute_t<T> g = grad[row];
    if (grad_a)
      write_gradient(grad_a + at, a + at, b + at, g, p.norm_a, p.norm_b, p.cosine, p.clamped_a,
                     columns, lane);
    if (grad_b)
      write_gradient(grad_b + at, b + at, a + at, g, p.norm_b, p.norm_a, p.cosine, p.clamped_b,
                     columns, lane);
  });
}

// ---- launchers ----------------------------------------------------------------------------

template <class T>
void cosine_similarity(const CosineSimilarityArgs& args, Device device) {
  launch("cosine_similarity", device, cosine_rows<T>, grid_for(args.rows, kRowsOfBlock),
         kRowsOfBlock * kWarp, 0, static_cast<compute_t<T>*>(args.y), static_cast<const T*>(args.a),
         static_cast<const T*>(args.b), args.rows, args.columns, args.eps);
}

template <class T>
void cosine_similarity_backward(const CosineSimilarityBackwardArgs& args, Device device) {
  launch("cosine_similarity_backward", device, cosine_backward_rows<T>,
         grid_for(args.rows, kRowsOfBlock), kRowsOfBlock * kWarp, 0, static_cast<T*>(args.grad_a),
         static_cast<T*>(args.grad_b), static_cast<const compute_t<T>*>(args.grad),
         static_cast<const T*>(args.a), static_cast<const T*>(args.b), args.rows, args.columns,
         args.eps);
}

}  // namespace

void register_cosine_similarity() {
  RINGLET_SET_FLOATING(cuda, cosine_similarity);
  RINGLET_SET_FLOATING(cuda, cosine_similarity_backward);
}

}  // namespace ringlet::cuda
