#include "ringlet/core/cpu/layer_norm.h"

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

template <class T>
const T* row_of(const void* base, std::int64_t row, std::int64_t columns) {
  return base ? static_cast<const T*>(base) + row * columns : nullptr;
}
template <class T>
T* row_of(void* base, std::int64_t row, std::int64_t columns) {
  return base ? static_cast<T*>(base) + row * columns : nullptr;
}

template <class T>
void forward_rows(const LayerNormArgs& args, std::int64_t begin, std::int64_t end) {
  using S = scalar_t<T>;
  const std::int64_t columns = args.columns, width = factor_size(columns);
  const Scratch memory(static_cast<std::size_t>(2 * width) * sizeof(S));
  S* z = memory.as<S>();
  const bool drops = args.dropout.threshold > 0;
  S* factor = drops ? z + width : nullptr;
  const PhiloxSchedule keys = schedule(args.dropout.key);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = row_of<T>(args.x, row, columns);
    const T* residual = row_of<T>(args.residual, row, columns);
    if (drops) dropout_factors(factor, args.dropout, keys, row, columns);
    for_vectors<T>(columns, [&](std::int64_t i, std::int64_t lanes) {
      vector_t<T> v = load_at(x, i, lanes);
      if (factor) v = drop(v, load_at(factor, i, lanes));
      if (residual) v = load_at(residual, i, lanes) + v;
      store_at(z, i, lanes, v);
    });
    const RowMoments<S> moments = row_moments(z, columns, args.eps);
    if (args.mean) static_cast<S*>(args.mean)[row] = moments.mean;
    static_cast<S*>(args.rstd)[row] = moments.rstd;
    normalize_row(row_of<T>(args.y, row, columns), row_of<T>(args.normalized, row, columns), z,
                  moments, static_cast<const S*>(args.weight), static_cast<const S*>(args.bias),
                  static_cast<const S*>(nullptr), columns);
  }
}

void layer_norm(const LayerNormArgs& args, Device device) {
  dispatch_floating("layer_norm", args.dtype, [&]<class T>() {
    parallel_for(device, args.rows, kGrain / args.columns + 1,
                 [&](std::int64_t begin, std::int64_t end) { forward_rows<T>(args, begin, end); });
  });
}

// What backward reads of one row.
template <class T, class S = scalar_t<T>>
struct BackwardRow {
  const T* grad;
  const T* z;
  const S* weight;
  const S* output_factor;  // null: the output was not dropped
  S mean;
  S scale;  // n = (z - mean) scale
};

// Adds the row to the column sums, keeps g w and n, and returns the columns' means of g w and of
// g w n.
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void reduce_row(const BackwardRow<T>& row, S* sum_weight, S* sum_bias, S* kept_gw,
                               S* kept_n, std::int64_t columns, S means[2]) {
  vector_t<T> total[2] = {};
  for_vectors<T>(
      columns, [&](std::int64_t i, std::int64_t lanes) __attribute__((always_inline)) {
        vector_t<T> g = load_at(row.grad, i, lanes);
        if (row.output_factor) g = drop(g, load_at(row.output_factor, i, lanes));
        // Lanes beyond the row have g = 0, whatever (0 - mean) scale is there.
        const vector_t<T> n = (load_at(row.z, i, lanes) - row.mean) * row.scale;
        store_at(sum_weight, i, lanes, fma(g, n, load_at(sum_weight, i, lanes)));
        store_at(sum_bias, i, lanes, load_at(sum_bias, i, lanes) + g);
        const vector_t<T> gw = g * load_at(row.weight, i, lanes);
        store(kept_gw + i, gw);
        store(kept_n + i, n);
        total[0] += gw;
        total[1] = fma(gw, n, total[1]);
      });
  means[0] = sum(total[0]) / static_cast<S>(columns);
  means[1] = sum(total[1]) / static_cast<S>(columns);
}

// grad_z = rstd (g w - mean(g w) - n mean(g w n)), and grad_x = dropout(grad_z).
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void write_row(const S* gw, const S* n, T* grad_z, T* grad_x, const S* factor,
                              S rstd, const S means[2], std::int64_t columns) {
  for_vectors<T>(
      columns, [&](std::int64_t i, std::int64_t lanes) __attribute__((always_inline)) {
        const vector_t<T> out = rstd * (load(gw + i) - means[0] - load(n + i) * means[1]);
        if (grad_z) store_at(grad_z, i, lanes, out);
        if (grad_x) store_at(grad_x, i, lanes, drop(out, load_at(factor, i, lanes)));
      });
}

// Rows of one block: their gradients, and the block's share of the column sums.
template <class T>
void backward_block(const LayerNormBackwardArgs& args, std::int64_t block) {
  using S = scalar_t<T>;
  const std::int64_t columns = args.columns, width = factor_size(columns);
  const Scratch memory(static_cast<std::size_t>(4 * width) * sizeof(S));
  S* factor = memory.as<S>();
  S* gw = factor + 2 * width;
  S* n = factor + 3 * width;
  S* output_factor = args.output_dropout.threshold > 0 ? factor + width : nullptr;
  const PhiloxSchedule keys = schedule(args.dropout.key);
  const PhiloxSchedule output_keys = schedule(args.output_dropout.key);
  S* sum_weight = static_cast<S*>(args.partial) + 2 * block * columns;
  memset(static_cast<void*>(sum_weight), 0, static_cast<std::size_t>(2 * columns) * sizeof(S));
  const std::int64_t begin = block * kLayerNormBlock;
  const std::int64_t end =
      begin + kLayerNormBlock < args.rows ? begin + kLayerNormBlock : args.rows;
  for (std::int64_t r = begin; r < end; ++r) {
    const S rstd = static_cast<const S*>(args.rstd)[r];
    if (output_factor) dropout_factors(output_factor, args.output_dropout, output_keys, r, columns);
    const BackwardRow<T> row{row_of<T>(args.grad, r, columns),
                             row_of<T>(args.z, r, columns),
                             static_cast<const S*>(args.weight),
                             output_factor,
                             args.mean ? static_cast<const S*>(args.mean)[r] : S{0},
                             args.mean ? rstd : S{1}};
    S means[2];
    reduce_row(row, sum_weight, sum_weight + columns, gw, n, columns, means);
    T* grad_x = row_of<T>(args.grad_x, r, columns);
    if (grad_x) dropout_factors(factor, args.dropout, keys, r, columns);
    write_row(gw, n, row_of<T>(args.grad_residual, r, columns), grad_x, factor, rstd, means,
              columns);
  }
}

// out[begin, end) = beta out + the blocks' partial sums, added in order.
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

void layer_norm_backward(const LayerNormBackwardArgs& args, Device device) {
  dispatch_floating("layer_norm_backward", args.dtype, [&]<class T>() {
    using S = scalar_t<T>;
    const std::int64_t blocks = (args.rows + kLayerNormBlock - 1) / kLayerNormBlock;
    parallel_for(device, blocks, kGrain / (kLayerNormBlock * args.columns) + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t block = begin; block < end; ++block)
                     backward_block<T>(args, block);
                 });
    const S* partial = static_cast<const S*>(args.partial);
    parallel_for(device, args.columns, kGrain / (blocks + 1) + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   add_partials(static_cast<S*>(args.grad_weight), args.beta_weight, partial,
                                blocks, args.columns, begin, end);
                   add_partials(static_cast<S*>(args.grad_bias), args.beta_bias,
                                partial + args.columns, blocks, args.columns, begin, end);
                 });
  });
}

}  // namespace

void register_layer_norm() {
  layer_norm_kernel.set(DeviceType::cpu, layer_norm);
  layer_norm_backward_kernel.set(DeviceType::cpu, layer_norm_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
