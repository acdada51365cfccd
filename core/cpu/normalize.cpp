#include "ringlet/core/ops/normalize.h"

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/dot.h"
#include "ringlet/core/threads/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

// A single column is not squared: its square may overflow.
template <class T, class S = scalar_t<T>>
S row_norm(const T* x, std::int64_t columns) {
  if (columns > 1) return square_root(dot(x, x, columns));
  const S only = static_cast<S>(*x);
  return only < 0 ? -only : only;
}

template <class T>
void normalize_row(const NormalizeArgs& args, std::int64_t row) {
  using S = scalar_t<T>;
  const T* x = static_cast<const T*>(args.x) + row * args.columns;
  T* y = static_cast<T*>(args.y) + row * args.columns;
  const S norm = row_norm(x, args.columns), eps = static_cast<S>(args.eps);
  const S divisor = norm < eps ? eps : norm;
  static_cast<S*>(args.norm)[row] = norm;
  for_vectors<T>(args.columns, [&](std::int64_t i, std::int64_t lanes) {
    store_at(y, i, lanes, load_at(x, i, lanes) / divisor);
  });
}

// (grad - y (grad . y)) / |x|, where y = x / |x|; grad / eps if |x| is below eps.
template <class T>
void backward_row(const NormalizeBackwardArgs& args, std::int64_t row) {
  using S = scalar_t<T>;
  const std::int64_t at = row * args.columns;
  const T* x = static_cast<const T*>(args.x) + at;
  const T* grad = static_cast<const T*>(args.grad) + at;
  T* grad_x = static_cast<T*>(args.grad_x) + at;
  const S norm = static_cast<const S*>(args.norm)[row], eps = static_cast<S>(args.eps);
  const bool clamped = norm < eps;
  const S divisor = clamped ? eps : norm;
  const S along = clamped ? S{0} : dot(grad, x, args.columns) / divisor / divisor;
  for_vectors<T>(args.columns, [&](std::int64_t i, std::int64_t lanes) {
    store_at(grad_x, i, lanes, (load_at(grad, i, lanes) - load_at(x, i, lanes) * along) / divisor);
  });
}

void normalize(const NormalizeArgs& args, Device device) {
  dispatch_floating("normalize", args.dtype, [&]<class T>() {
    parallel_for(device, args.rows, kGrain / args.columns + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) normalize_row<T>(args, row);
                 });
  });
}

void normalize_backward(const NormalizeBackwardArgs& args, Device device) {
  dispatch_floating("normalize_backward", args.dtype, [&]<class T>() {
    parallel_for(device, args.rows, kGrain / args.columns + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) backward_row<T>(args, row);
                 });
  });
}

}  // namespace

void register_normalize() {
  normalize_kernel.set(DeviceType::cpu, normalize);
  normalize_backward_kernel.set(DeviceType::cpu, normalize_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
