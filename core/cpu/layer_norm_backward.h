// The gradient of a layer normalisation for a block of rows, and the sums over the blocks.
#pragma once

#include "ringlet/core/cpu/layer_norm_row.h"
#include "ringlet/core/cpu/scratch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// The inputs of backward for one row.
template <class T, class S = scalar_t<T>>
struct BackwardRow {
  const T* grad;
  const T* z;
  const S* weight;
  const Dropout* output_dropout;
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
                              const std::uint32_t* words, const Dropout& dropout, S rstd,
                              const S means[2], std::int64_t columns) {
  for_vectors<T>(
      columns, [&](std::int64_t i, std::int64_t lanes) __attribute__((always_inline)) {
        const vector_t<T> gw = row.g(i, lanes) * load_at(row.weight, i, lanes);
        const vector_t<T> out = rstd * (gw - means[0] - row.n(i, lanes) * means[1]);
        if (grad_z) store_at(grad_z, i, lanes, out);
        if (grad_x) store_at(grad_x, i, lanes, drop(out, words + i, dropout));
      });
}

// The rows of one block, in pairs: their gradients, and the block's share of the column sums.
template <class T>
class BackwardBlock {
  using S = scalar_t<T>;

 public:
  BackwardBlock(const LayerNormBackwardArgs& args, std::int64_t block)
      : args_(args),
        columns_(args.columns),
        sum_weight_(static_cast<S*>(args.partial) + 2 * block * args.columns),
        keys_(schedule(key_of(args.dropout))),
        output_keys_(schedule(key_of(args.output_dropout))),
        memory_(static_cast<std::size_t>(3 * row_words(args.columns)) * sizeof(std::uint32_t)) {}

  void run(std::int64_t begin, std::int64_t end) {
    memset(static_cast<void*>(sum_weight_), 0, static_cast<std::size_t>(2 * columns_) * sizeof(S));
    for (; begin + 2 <= end; begin += 2) rows<2>(begin);
    if (begin < end) rows<1>(begin);
  }

 private:
  std::uint32_t* words(int i) const {
    return memory_.as<std::uint32_t>() + i * row_words(columns_);
  }

  BackwardRow<T> row(std::int64_t r, std::uint32_t* output_words) const {
    const bool drops = args_.output_dropout.threshold > 0;
    if (drops) draw_row(output_words, args_.output_dropout, output_keys_, r, columns_);
    return {row_of<T>(args_.grad, r, columns_),
            row_of<T>(args_.z, r, columns_),
            static_cast<const S*>(args_.weight),
            &args_.output_dropout,
            drops ? output_words : nullptr,
            args_.mean ? static_cast<const S*>(args_.mean)[r] : S{0},
            args_.mean ? static_cast<const S*>(args_.rstd)[r] : S{1}};
  }

  template <int kRows>
  void rows(std::int64_t first) {
    BackwardRow<T> all[kRows] = {row(first, words(1))};
    if constexpr (kRows > 1) all[1] = row(first + 1, words(2));
    S means[kRows][2];
    reduce_rows<kRows>(all, sum_weight_, sum_weight_ + columns_, columns_, means);
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t r = first + k;
      T* grad_x = row_of<T>(args_.grad_x, r, columns_);
      if (grad_x) draw_row(words(0), args_.dropout, keys_, r, columns_);
      write_row(all[k], row_of<T>(args_.grad_residual, r, columns_), grad_x, words(0),
                args_.dropout, static_cast<const S*>(args_.rstd)[r], means[k], columns_);
    }
  }

  const LayerNormBackwardArgs& args_;
  const std::int64_t columns_;
  S* sum_weight_;
  const PhiloxSchedule keys_, output_keys_;
  const Scratch memory_;
};

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

}  // namespace
}  // namespace ringlet::cpu::RINGLET_ISA
