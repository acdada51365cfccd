#include "ringlet/core/ops/cosine_similarity.h"

#include "ringlet/core/cpu/dot.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// A row and its norm, the divisor of a cosine.
template <class T>
struct Row {
  using S = scalar_t<T>;

  Row(const void* rows, std::int64_t row, std::int64_t columns, double eps)
      : x(row_of<const T>(rows, row, columns)), norm(square_root(dot(x, x, columns))) {
    const S least = static_cast<S>(eps);
    clamped = norm < least;
    if (clamped) norm = least;
  }

  const T* x;
  S norm;
  bool clamped;
};

template <class T>
RINGLET_INLINE scalar_t<T> cosine(const Row<T>& a, const Row<T>& b, std::int64_t columns) {
  return dot(a.x, b.x, columns) / a.norm / b.norm;
}

template <class T>
void cosine_similarity(const CosineSimilarityArgs& args, Device device) {
  for_each(device, args.rows, kGrain / args.columns + 1, [&](std::int64_t row) {
    const Row<T> a(args.a, row, args.columns, args.eps), b(args.b, row, args.columns, args.eps);
    static_cast<scalar_t<T>*>(args.y)[row] = cosine(a, b, args.columns);
  });
}

// d cosine / d x = y / (|x| |y|) - x cosine / |x|^2; without the second term below eps.
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void write_gradient(T* out, const Row<T>& x, const Row<T>& y, S grad, S cosine,
                                   std::int64_t columns) {
  if (!out) return;
  const S across = grad / x.norm / y.norm;
  const S along = x.clamped ? S{0} : grad * cosine / x.norm / x.norm;
  for_vectors<T>(columns, [&](std::int64_t i, std::int64_t lanes) {
    store_at(out, i, lanes, load_at(y.x, i, lanes) * across - load_at(x.x, i, lanes) * along);
  });
}

template <class T, class S = scalar_t<T>>
void cosine_similarity_backward(const CosineSimilarityBackwardArgs& args, Device device) {
  for_each(device, args.rows, kGrain / args.columns + 1, [&](std::int64_t row) {
    const std::int64_t columns = args.columns;
    const Row<T> a(args.a, row, columns, args.eps), b(args.b, row, columns, args.eps);
    const S grad = static_cast<const S*>(args.grad)[row], y = cosine(a, b, columns);
    write_gradient(row_of<T>(args.grad_a, row, columns), a, b, grad, y, columns);
    write_gradient(row_of<T>(args.grad_b, row, columns), b, a, grad, y, columns);
  });
}

}  // namespace

void register_cosine_similarity() {
  RINGLET_SET_FLOATING(cpu, cosine_similarity);
  RINGLET_SET_FLOATING(cpu, cosine_similarity_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
