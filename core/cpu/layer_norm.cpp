#include "ringlet/core/ops/layer_norm.h"

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/layer_norm_backward.h"
#include "ringlet/core/cpu/layer_norm_row.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/threads/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

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
    const T* x = row_of<T>(args.x, row, columns);
    const T* residual = row_of<T>(args.residual, row, columns);
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

void layer_norm(const LayerNormArgs& args, Device device) {
  dispatch_floating("layer_norm", args.dtype, [&]<class T>() {
    parallel_for(device, args.rows, kGrain / args.columns + 1,
                 [&](std::int64_t begin, std::int64_t end) { forward_rows<T>(args, begin, end); });
  });
}

void layer_norm_backward(const LayerNormBackwardArgs& args, Device device) {
  dispatch_floating("layer_norm_backward", args.dtype, [&]<class T>() {
    using S = scalar_t<T>;
    const std::int64_t blocks = layer_norm_blocks(args.rows);
    parallel_for(device, blocks, kGrain / (kLayerNormBlock * args.columns) + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t block = begin; block < end; ++block) {
                     const std::int64_t first = block * kLayerNormBlock;
                     const std::int64_t left = args.rows - first;
                     BackwardBlock<T>(args, block)
                         .run(first, first + (left < kLayerNormBlock ? left : kLayerNormBlock));
                   }
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
