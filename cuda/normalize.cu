#include "ringlet/core/ops/normalize.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/reduce.cuh"

namespace ringlet::cuda {
namespace {

template <class T>
__global__ void normalize_rows(T* y, compute_t<T>* norms, const T* x, std::int64_t rows,
                               std::int64_t columns, compute_t<T> eps) {
  using S = compute_t<T>;
  for_rows_of_warps(rows, [&](std::int64_t row, int lane) {
    const T* from = x + row * columns;
    T* to = y + row * columns;
    // A single column is not squared: the square may overflow.
    const S norm =
        columns > 1 ? ::sqrt(warp_dot(from, from, columns, lane)) : ::fabs(to_compute(from[0]));
    const S divisor = norm < eps ? eps : norm;
    if (lane == 0) norms[row] = norm;
#pragma unroll 4
    for (std::int64_t i = lane; i < columns; i += kWarp)
      to[i] = from_compute<T>(to_compute(from[i]) / divisor);
  });
}

// (grad - y (grad . y)) / |x|, where y = x / |x|; grad / eps if |x| < eps.
template <class T>
__global__ void normalize_backward_rows(T* grad_x, const T* grad, const T* x,
                                        const compute_t<T>* norms, std::int64_t rows,
                                        std::int64_t columns, compute_t<T> eps) {
  using S = compute_t<T>;
  for_rows_of_warps(rows, [&](std::int64_t row, int lane) {
    const T* from = x + row * columns;
    const T* g = grad + row * columns;
    const S norm = norms[row];
    const bool clamped = norm < eps;
    const S divisor = clamped ? eps : norm;
    const S product = warp_dot(g, from, columns, lane);
    const S along = clamped ? S{0} : product / divisor / divisor;
#pragma unroll 4
    for (std::int64_t i = lane; i < columns; i += kWarp)
      grad_x[row * columns + i] =
          from_compute<T>((to_compute(g[i]) - to_compute(from[i]) * along) / divisor);
  });
}

// ---- launchers ----------------------------------------------------------------------------

template <class T>
void normalize(const NormalizeArgs& args, Device device) {
  launch("normalize", device, normalize_rows<T>, grid_for(args.rows, kRowsOfBlock),
         kRowsOfBlock * kWarp, 0, static_cast<T*>(args.y), static_cast<compute_t<T>*>(args.norm),
         static_cast<const T*>(args.x), args.rows, args.columns, args.eps);
}

template <class T>
void normalize_backward(const NormalizeBackwardArgs& args, Device device) {
  launch("normalize_backward", device, normalize_backward_rows<T>,
         grid_for(args.rows, kRowsOfBlock), kRowsOfBlock * kWarp, 0, static_cast<T*>(args.grad_x),
         static_cast<const T*>(args.grad), static_cast<const T*>(args.x),
         static_cast<const compute_t<T>*>(args.norm), args.rows, args.columns, args.eps);
}

}  // namespace

void register_normalize() {
  RINGLET_SET_FLOATING(cuda, normalize);
  RINGLET_SET_FLOATING(cuda, normalize_backward);
}

}  // namespace ringlet::cuda
