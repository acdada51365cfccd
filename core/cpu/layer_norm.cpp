#include "ringlet/core/ops/layer_norm.h"

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/layer_norm_backward.h"
#include "ringlet/core/cpu/layer_norm_row.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/cpu/sum_rows.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

template <class T>
void forward_rows(const LayerNormArgs& args, std::int64_t begin, std::int64_t end) {
  using S = scalar_t<T>;
  const std::int64_t columns = args.columns, drawn = row_words(columns);
  const Scratch memory(static_cast<std::size_t>(drawn) * (sizeof(S) + sizeof(std::uint32_t)));
  S* z = memory.as<S>();
  const bool drops = args.dropout.threshold > 0;
  auto* words = reinterpret_cast<std::uint32_t*>(z + drawn);
  const PhiloxSchedule keys = schedule(key_of(args.dropout));
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = row_of<const T>(args.x, row, columns);
    const T* residual = row_of<const T>(args.residual, row, columns);
    if (drops) draw_row(words, args.dropout, keys, row, columns);
    for_vectors<T>(
        columns, [&](std::int64_t i, std::int64_t lanes) __attribute__((always_inline)) {
          vector_t<T> v = load_at(x, i, lanes);
          if (drops) v = drop(v, words + i, args.dropout);
          if (residual) v = load_at(residual, i, lanes) + v;
          store_at(z, i, lanes, v);
        });
    const RowMoments<S> moments = row_moments(z, columns, args.eps);
    if (args.mean) static_cast<S*>(args.mean)[row] = moments.mean;
    static_cast<S*>(args.rstd)[row] = moments.rstd;
    normalize_row(row_of<T>(args.y, row, columns), row_of<T>(args.normalized, row, columns), z,
                  moments, static_cast<const S*>(args.weight), static_cast<const S*>(args.bias),
                  nullptr, args.dropout, columns);
  }
}

template <class T>
void layer_norm(const LayerNormArgs& args, Device device) {
  parallel_for(device, args.rows, kGrain / args.columns + 1,
               [&](std::int64_t begin, std::int64_t end) { forward_rows<T>(args, begin, end); });
}

template <class T, class S = scalar_t<T>>
void layer_norm_backward(const LayerNormBackwardArgs& args, Device device) {
  const std::int64_t blocks = layer_norm_blocks(args.rows), columns = args.columns;
  const Scratch memory(static_cast<std::size_t>(blocks * 2 * columns) * sizeof(S));
  S* const partial = memory.as<S>();  // (blocks, 2, C)
  for_each(device, blocks, kGrain / (kLayerNormBlock * columns) + 1, [&](std::int64_t block) {
    backward_block<T>(args, block, partial + 2 * block * columns);
  });
  parallel_for(device, columns, kGrain / (blocks + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 add_partials(static_cast<S*>(args.grad_weight), args.beta_weight, partial, blocks,
                              columns, begin, end);
                 add_partials(static_cast<S*>(args.grad_bias), args.beta_bias, partial + columns,
                              blocks, columns, begin, end);
               });
  if (args.x_sums) sum_rows<T>(x_sums_of(args), device);
}

}  // namespace

void register_layer_norm() {
  RINGLET_SET_FLOATING(layer_norm);
  RINGLET_SET_FLOATING(layer_norm_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
