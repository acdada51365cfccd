// The sums of a matrix's rows, for bias gradients.
#pragma once

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/ops/matmul.h"

namespace ringlet::cpu::RINGLET_ISA {

// Sums 64 rows at a time, so that the error of a long sum grows with m / 64.
template <class T>
void sum_columns(const SumRowsArgs& args, std::int64_t begin, std::int64_t end) {
  using S = scalar_t<T>;
  constexpr std::int64_t kRun = 64;
  const T* in = static_cast<const T*>(args.in) + begin;
  S* out = static_cast<S*>(args.out) + begin;
  for_vectors<T>(end - begin, [&](std::int64_t i, std::int64_t count) {
    vector_t<T> total{};
    for (std::int64_t row = 0; row < args.m; row += kRun) {
      const std::int64_t stop = row + kRun < args.m ? row + kRun : args.m;
      vector_t<T> part{};
      for (std::int64_t r = row; r < stop; ++r) part += load_at(in + r * args.n, i, count);
      total += part;
    }
    if (args.beta != 0)
      total = fma(splat(static_cast<S>(args.beta)), load_at(out, i, count), total);
    store_at(out, i, count, total);
  });
}

template <class T>
void sum_rows(const SumRowsArgs& args, Device device) {
  // Each thread gets whole cache lines.
  constexpr std::int64_t kLine = 64;
  parallel_for(device, (args.n + kLine - 1) / kLine, kGrain / (kLine * (args.m + 1)) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 sum_columns<T>(args, begin * kLine, end * kLine < args.n ? end * kLine : args.n);
               });
}

}  // namespace ringlet::cpu::RINGLET_ISA
