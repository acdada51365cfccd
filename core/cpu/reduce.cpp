#include "ringlet/core/ops/reduce.h"

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

template <ReduceOp op, class V>
RINGLET_INLINE V combine(V a, V b) {
  if constexpr (op == ReduceOp::max) return a != a ? a : (b > a || b != b ? b : a);
  if constexpr (op == ReduceOp::min) return a != a ? a : (b < a || b != b ? b : a);
  return a + b;
}

template <ReduceOp op, class T>
RINGLET_INLINE scalar_t<T> finish(scalar_t<T> value, std::int64_t n) {
  return op == ReduceOp::mean ? value / static_cast<scalar_t<T>>(n) : value;
}

// n contiguous elements: four vectors of partial results, folded in a fixed order.
template <ReduceOp op, class T>
scalar_t<T> reduce_row(const T* in, std::int64_t n) {
  using V = vector_t<T>;
  constexpr std::int64_t kLanes = Compute<T>::kLanes;
  constexpr bool additive = op == ReduceOp::sum || op == ReduceOp::mean;
  const V start = additive ? V{} : splat(static_cast<scalar_t<T>>(in[0]));
  V partial[4] = {start, start, start, start};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k) partial[k] = combine<op>(partial[k], load(in + i + k * kLanes));
  for (int k = 0; i + kLanes <= n; i += kLanes, ++k)
    partial[k] = combine<op>(partial[k], load(in + i));
  V all = combine<op>(combine<op>(partial[0], partial[1]), combine<op>(partial[2], partial[3]));
  if (additive && i < n) all += load(in + i, n - i);
  scalar_t<T> result = additive ? sum(all) : all[0];
  if constexpr (!additive) {
    for (std::int64_t lane = 1; lane < kLanes; ++lane) result = combine<op>(result, all[lane]);
    for (; i < n; ++i) result = combine<op>(result, static_cast<scalar_t<T>>(in[i]));
  }
  return result;
}

// Adjacent columns: out[c] = reduction of in[r * inner + c] over r, for columns [begin, end).
template <ReduceOp op, class T>
void reduce_columns(const T* in, T* out, std::int64_t n, std::int64_t inner, std::int64_t begin,
                    std::int64_t end) {
  for_vectors<T>(end - begin, [&](std::int64_t i, std::int64_t count) {
    const T* column = in + begin + i;
    auto total = n > 0 ? load_at(column, 0, count) : vector_t<T>{};
    for (std::int64_t r = 1; r < n; ++r)
      total = combine<op>(total, load_at(column + r * inner, 0, count));
    if (op == ReduceOp::mean) total /= static_cast<scalar_t<T>>(n);
    store_at(out + begin + i, 0, count, total);
  });
}

template <ReduceOp op, class T>
void run(const ReduceArgs& args, Device device) {
  const std::int64_t n = args.n, inner = args.inner, grain = kGrain / (n + 1) + 1;
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  if (inner == 1)
    return for_each(device, args.outer, grain, [=](std::int64_t o) {
      out[o] = T(finish<op, T>(reduce_row<op>(in + o * n, n), n));
    });
  for_columns(device, args.outer, inner, grain,
              [=](std::int64_t o, std::int64_t begin, std::int64_t end) {
                reduce_columns<op>(in + o * n * inner, out + o * inner, n, inner, begin, end);
              });
}

template <class T>
void reduce(const ReduceArgs& args, Device device) {
  dispatch_value<kLastReduceOp>(args.op, [&]<ReduceOp op>() { run<op, T>(args, device); });
}

}  // namespace

void register_reduce() { RINGLET_SET_FLOATING(cpu, reduce); }

}  // namespace ringlet::cpu::RINGLET_ISA
