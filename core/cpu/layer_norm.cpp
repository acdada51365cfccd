#include "ringlet/core/ops/layer_norm.h"

#include "ringlet/core/cpu/layer_norm_row.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/cpu/sum_rows.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {

// The gradient of a layer normalisation for a block of rows, and the sums over the blocks.

namespace {

// The inputs of backward for one row.
template <class T, class S = scalar_t<T>>
struct BackwardRow {
  const T* grad;
  const T* z;
  const S* weight;
  const DropoutMask* output_dropout;
  const std::uint32_t* output_words;  // null: the output was not dropped
  S mean;
  S scale;  // n = (z - mean) scale

  // Lanes beyond the row have g = 0, for any value of (0 - mean) scale there.
  __attribute__((always_inline)) vector_t<T> g(std::int64_t i, std::int64_t lanes) const {
    const vector_t<T> value = load_at(grad, i, lanes);
    return output_words ? drop(value, output_words + i, *output_dropout) : value;
  }
  __attribute__((always_inline)) vector_t<T> n(std::int64_t i, std::int64_t lanes) const {
    return (load_at(z, i, lanes) - mean) * scale;
  }
};

// Adds the rows to the column sums, in order. means[r]: the means of g w and of g w n over the
// columns.
template <int kRows, class T, class S = scalar_t<T>>
RINGLET_INLINE void reduce_rows(const BackwardRow<T>* rows, S* sum_weight, S* sum_bias,
                                std::int64_t columns, S (*means)[2]) {
  vector_t<T> total[kRows][2] = {};
  for_vectors<T>(
      columns, [&](std::int64_t i, std::int64_t lanes) __attribute__((always_inline)) {
        const vector_t<T> weight = load_at(rows[0].weight, i, lanes);
        vector_t<T> column_weight = load_at(sum_weight, i, lanes);
        vector_t<T> column_bias = load_at(sum_bias, i, lanes);
#pragma GCC unroll 2
        for (int r = 0; r < kRows; ++r) {
          const vector_t<T> g = rows[r].g(i, lanes), n = rows[r].n(i, lanes), gw = g * weight;
          column_weight = fma(g, n, column_weight);
          column_bias += g;
          total[r][0] += gw;
          total[r][1] = fma(gw, n, total[r][1]);
        }
        store_at(sum_weight, i, lanes, column_weight);
        store_at(sum_bias, i, lanes, column_bias);
      });
  for (int r = 0; r < kRows; ++r)
    for (int k = 0; k < 2; ++k) means[r][k] = sum(total[r][k]) / static_cast<S>(columns);
}

// grad_z = rstd (g w - mean(g w) - n mean(g w n)), and grad_x = dropout(grad_z).
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void write_row(const BackwardRow<T>& row, T* grad_z, T* grad_x,
                              const std::uint32_t* words, const DropoutMask& dropout, S rstd,
                              const S means[2], std::int64_t columns) {
  for_vectors<T>(
      columns, [&](std::int64_t i, std::int64_t lanes) __attribute__((always_inline)) {
        const vector_t<T> gw = row.g(i, lanes) * load_at(row.weight, i, lanes);
        const vector_t<T> out = rstd * (gw - means[0] - row.n(i, lanes) * means[1]);
        if (grad_z) store_at(grad_z, i, lanes, out);
        if (grad_x) store_at(grad_x, i, lanes, drop(out, words + i, dropout));
      });
}

// The rows of one block, in pairs: their gradients, and the block's column sums for weight and
// bias, `sums` (2, C).
template <class T, class S = scalar_t<T>>
void backward_block(const LayerNormBackwardArgs& args, std::int64_t block, S* sums) {
  const std::int64_t columns = args.columns, begin = block * kLayerNormBlock;
  const std::int64_t end =
      args.rows - begin < kLayerNormBlock ? args.rows : begin + kLayerNormBlock;
  const PhiloxSchedule keys = schedule(key_of(args.dropout));
  const PhiloxSchedule output_keys = schedule(key_of(args.output_dropout));
  const Scratch memory(static_cast<std::size_t>(3 * row_words(columns)) * sizeof(std::uint32_t));
  std::uint32_t* words = memory.as<std::uint32_t>();
  memset(static_cast<void*>(sums), 0, static_cast<std::size_t>(2 * columns) * sizeof(S));

  const auto row = [&](std::int64_t r, std::uint32_t* output_words) -> BackwardRow<T> {
    const bool drops = args.output_dropout.threshold > 0;
    if (drops) draw_row(output_words, args.output_dropout, output_keys, r, columns);
    return {row_of<const T>(args.grad, r, columns),
            row_of<const T>(args.z, r, columns),
            static_cast<const S*>(args.weight),
            &args.output_dropout,
            drops ? output_words : nullptr,
            args.mean ? static_cast<const S*>(args.mean)[r] : S{0},
            args.mean ? static_cast<const S*>(args.rstd)[r] : S{1}};
  };
  const auto rows = [&]<int kRows>(std::int64_t first) {
    BackwardRow<T> all[kRows] = {row(first, words + row_words(columns))};
    if constexpr (kRows > 1) all[1] = row(first + 1, words + 2 * row_words(columns));
    S means[kRows][2];
    reduce_rows<kRows>(all, sums, sums + columns, columns, means);
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t r = first + k;
      T* grad_x = row_of<T>(args.grad_x, r, columns);
      if (grad_x) draw_row(words, args.dropout, keys, r, columns);
      write_row(all[k], row_of<T>(args.grad_residual, r, columns), grad_x, words, args.dropout,
                static_cast<const S*>(args.rstd)[r], means[k], columns);
    }
  };
  std::int64_t r = begin;
  for (; r + 2 <= end; r += 2) rows.template operator()<2>(r);
  if (r < end) rows.template operator()<1>(r);
}

// out[begin, end) = beta * out + the blocks' partial sums, added in order.
template <class S>
void add_partials(S* out, double beta, const S* partial, std::int64_t blocks, std::int64_t columns,
                  std::int64_t begin, std::int64_t end) {
  if (!out) return;
  for_vectors<S>(end - begin, [&](std::int64_t i, std::int64_t lanes) {
    vector_t<S> total = {};
    for (std::int64_t block = 0; block < blocks; ++block)
      total += load_at(partial + 2 * block * columns + begin, i, lanes);
    if (beta != 0) total += load_at(out + begin, i, lanes);
    store_at(out + begin, i, lanes, total);
  });
}

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
  RINGLET_SET_FLOATING(cpu, layer_norm);
  RINGLET_SET_FLOATING(cpu, layer_norm_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
