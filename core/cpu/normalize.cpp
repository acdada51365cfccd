#include "ringlet/core/ops/normalize.h"

#include "ringlet/core/cpu/dot.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// A single column is not squared: its square may overflow.
template <class T, class S = scalar_t<T>>
S row_norm(const T* x, std::int64_t columns) {
  if (columns > 1) return square_root(dot(x, x, columns));
  const S only = static_cast<S>(*x);
  return only < 0 ? -only : only;
}

template <class T, class S = scalar_t<T>>
void normalize(const NormalizeArgs& args, Device device) {
  for_each(device, args.rows, kGrain / args.columns + 1, [&](std::int64_t row) {
    const T* x = row_of<const T>(args.x, row, args.columns);
    T* y = row_of<T>(args.y, row, args.columns);
    const S norm = row_norm(x, args.columns), eps = static_cast<S>(args.eps);
    const S divisor = norm < eps ? eps : norm;
    static_cast<S*>(args.norm)[row] = norm;
    for_vectors<T>(args.columns, [&](std::int64_t i, std::int64_t lanes) {
      store_at(y, i, lanes, load_at(x, i, lanes) / divisor);
    });
  });
}

// (grad - y (grad . y)) / |x|, where y = x / |x|; grad / eps if |x| is below eps.
template <class T, class S = scalar_t<T>>
void normalize_backward(const NormalizeBackwardArgs& args, Device device) {
  for_each(device, args.rows, kGrain / args.columns + 1, [&](std::int64_t row) {
    const T* x = row_of<const T>(args.x, row, args.columns);
    const T* grad = row_of<const T>(args.grad, row, args.columns);
    T* grad_x = row_of<T>(args.grad_x, row, args.columns);
    const S norm = static_cast<const S*>(args.norm)[row], eps = static_cast<S>(args.eps);
    const bool clamped = norm < eps;
    const S divisor = clamped ? eps : norm;
    const S along = clamped ? S{0} : dot(grad, x, args.columns) / divisor / divisor;
    for_vectors<T>(args.columns, [&](std::int64_t i, std::int64_t lanes) {
      store_at(grad_x, i, lanes,
               (load_at(grad, i, lanes) - load_at(x, i, lanes) * along) / divisor);
    });
  });
}

}  // namespace

void register_normalize() {
  RINGLET_SET_FLOATING(cpu, normalize);
  RINGLET_SET_FLOATING(cpu, normalize_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
