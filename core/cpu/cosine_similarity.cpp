#include "ringlet/core/ops/cosine_similarity.h"

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/dot.h"
#include "ringlet/core/threads/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

// A pair of rows: the cosine and the norms it divides by.
template <class T>
struct Pair {
  using S = scalar_t<T>;

  static inline Pair make(const void* a, const void* b, std::int64_t row, std::int64_t columns,
                          double eps) {
    Pair pair;
    pair.a = static_cast<const T*>(a) + row * columns;
    pair.b = static_cast<const T*>(b) + row * columns;
    const S norm_a = square_root(dot(pair.a, pair.a, columns));
    const S norm_b = square_root(dot(pair.b, pair.b, columns));
    const S least = static_cast<S>(eps);
    pair.clamped_a = norm_a < least;
    pair.clamped_b = norm_b < least;
    pair.norm_a = pair.clamped_a ? least : norm_a;
    pair.norm_b = pair.clamped_b ? least : norm_b;
    pair.cosine = dot(pair.a, pair.b, columns) / pair.norm_a / pair.norm_b;
    return pair;
  }

  const T* a;
  const T* b;
  S norm_a, norm_b, cosine;
  bool clamped_a, clamped_b;
};

// d cosine / d x = y / (|x| |y|) - x cosine / |x|^2; without the second term below eps.
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void write_gradient(T* out, const T* x, const T* y, S grad, S norm_x, S norm_y,
                                   S cosine, bool clamped, std::int64_t columns) {
  const S across = grad / norm_x / norm_y;
  const S along = clamped ? S{0} : grad * cosine / norm_x / norm_x;
  for_vectors<T>(columns, [&](std::int64_t i, std::int64_t lanes) {
    store_at(out, i, lanes, load_at(y, i, lanes) * across - load_at(x, i, lanes) * along);
  });
}

void cosine_similarity(const CosineSimilarityArgs& args, Device device) {
  dispatch_floating("cosine_similarity", args.dtype, [&]<class T>() {
    parallel_for(device, args.rows, kGrain / args.columns + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row)
                     static_cast<scalar_t<T>*>(args.y)[row] =
                         Pair<T>::make(args.a, args.b, row, args.columns, args.eps).cosine;
                 });
  });
}

template <class T>
void backward_row(const CosineSimilarityBackwardArgs& args, std::int64_t row) {
  const std::int64_t columns = args.columns, at = row * columns;
  const auto p = Pair<T>::make(args.a, args.b, row, columns, args.eps);
  const scalar_t<T> grad = static_cast<const scalar_t<T>*>(args.grad)[row];
  if (args.grad_a)
    write_gradient(static_cast<T*>(args.grad_a) + at, p.a, p.b, grad, p.norm_a, p.norm_b, p.cosine,
                   p.clamped_a, columns);
  if (args.grad_b)
    write_gradient(static_cast<T*>(args.grad_b) + at, p.b, p.a, grad, p.norm_b, p.norm_a, p.cosine,
                   p.clamped_b, columns);
}

void cosine_similarity_backward(const CosineSimilarityBackwardArgs& args, Device device) {
  dispatch_floating("cosine_similarity_backward", args.dtype, [&]<class T>() {
    parallel_for(device, args.rows, kGrain / args.columns + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) backward_row<T>(args, row);
                 });
  });
}

}  // namespace

void register_cosine_similarity() {
  cosine_similarity_kernel.set(DeviceType::cpu, cosine_similarity);
  cosine_similarity_backward_kernel.set(DeviceType::cpu, cosine_similarity_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
