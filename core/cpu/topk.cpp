#include "ringlet/core/ops/topk.h"

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/loops.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// One line of n elements, `stride` apart, and the order of its indices.
template <class T, bool smallest>
struct Line {
  const T* in;
  std::int64_t stride;

  scalar_t<T> at(std::int64_t i) const { return static_cast<scalar_t<T>>(in[i * stride]); }

  /// Whether element a comes before element b: larger, or equal and earlier.
  bool before(std::int64_t a, std::int64_t b) const {
    const scalar_t<T> x = at(a), y = at(b);
    const bool x_nan = x != x, y_nan = y != y;
    if (x_nan || y_nan) return x_nan && (!y_nan || a < b);
    if (x == y) return a < b;
    return smallest ? x < y : x > y;
  }
};

template <class L>
std::int64_t first_of(const L& line, std::int64_t n) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < n; ++i)
    if (line.before(i, best)) best = i;
  return best;
}

// A heap of indices, `stride` apart, with the last in order on top.
template <class L>
void sift_down(const L& line, std::int64_t* heap, std::int64_t stride, std::int64_t size,
               std::int64_t at) {
  const std::int64_t moving = heap[at * stride];
  for (std::int64_t child; (child = 2 * at + 1) < size; at = child) {
    if (child + 1 < size && line.before(heap[child * stride], heap[(child + 1) * stride])) ++child;
    if (!line.before(moving, heap[child * stride])) break;
    heap[at * stride] = heap[child * stride];
  }
  heap[at * stride] = moving;
}

template <class L>
void largest(const L& line, std::int64_t n, std::int64_t k, std::int64_t* heap,
             std::int64_t stride) {
  for (std::int64_t i = 0; i < k; ++i) heap[i * stride] = i;
  for (std::int64_t i = k / 2; i-- > 0;) sift_down(line, heap, stride, k, i);
  for (std::int64_t i = k; i < n; ++i) {
    if (!line.before(i, heap[0])) continue;
    heap[0] = i;
    sift_down(line, heap, stride, k, 0);
  }
  for (std::int64_t size = k; --size > 0;) {  // the top is the last in order: move it to the end
    const std::int64_t last = heap[0];
    heap[0] = heap[size * stride];
    heap[size * stride] = last;
    sift_down(line, heap, stride, size, 0);
  }
}

template <class T, bool smallest>
void run(const TopKArgs& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t c = begin; c < end; ++c) {
    const std::int64_t o = c / args.inner, i = c % args.inner;
    const Line<T, smallest> line{static_cast<const T*>(args.in) + o * args.n * args.inner + i,
                                 args.inner};
    const std::int64_t first = o * args.k * args.inner + i;
    std::int64_t* indices = args.indices + first;
    if (args.k == 1) {
      indices[0] = first_of(line, args.n);
    } else {
      largest(line, args.n, args.k, indices, args.inner);
    }
    if (!args.values) continue;
    T* values = static_cast<T*>(args.values) + first;
    for (std::int64_t j = 0; j < args.k; ++j)
      values[j * args.inner] = line.in[indices[j * args.inner] * args.inner];
  }
}

template <class T>
void topk(const TopKArgs& args, Device device) {
  parallel_for(device, args.outer * args.inner, kGrain / args.n + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 if (args.smallest) return run<T, true>(args, begin, end);
                 run<T, false>(args, begin, end);
               });
}

}  // namespace

void register_topk() { RINGLET_SET_FLOATING(topk); }

}  // namespace ringlet::cpu::RINGLET_ISA
