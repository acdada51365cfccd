#include "ringlet/core/ops/pooling.h"

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr double kSmallestCount = 1e-9;

template <class S>
S count_of(std::int64_t tokens) {
  return tokens > 0 ? static_cast<S>(tokens) : static_cast<S>(kSmallestCount);
}

// The mean over tokens [begin, end), four vectors of columns at a time.
template <class T, class S = scalar_t<T>>
void mean_row(S* out, const T* x, std::int64_t begin, std::int64_t end, std::int64_t columns) {
  constexpr int kLanes = Compute<T>::kLanes;
  const S count = count_of<S>(end - begin);
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) {
    vector_t<T> total[4] = {};
    for (std::int64_t t = begin; t < end; ++t)
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) total[k] += load(x + t * columns + c + k * kLanes);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) store(out + c + k * kLanes, total[k] / count);
  }
  for (; c < columns; c += kLanes) {
    const std::int64_t lanes = columns - c < kLanes ? columns - c : kLanes;
    vector_t<T> total = {};
    for (std::int64_t t = begin; t < end; ++t) total += load_at(x + t * columns, c, lanes);
    store_at(out, c, lanes, total / count);
  }
}

// The first of equal maxima; NaN is larger than any number, as in PyTorch.
template <class T, class S = scalar_t<T>>
void max_row(S* out, std::int32_t* argmax, const T* x, std::int64_t begin, std::int64_t end,
             std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c) {
    out[c] = static_cast<S>(x[begin * columns + c]);
    argmax[c] = static_cast<std::int32_t>(begin);
  }
  for (std::int64_t t = begin + 1; t < end; ++t)
    for (std::int64_t c = 0; c < columns; ++c) {
      const S value = static_cast<S>(x[t * columns + c]), best = out[c];
      const bool better = best == best && !(value <= best);
      out[c] = better ? value : best;
      argmax[c] = better ? static_cast<std::int32_t>(t) : argmax[c];
    }
}

template <class T>
void clear_rows(T* rows, std::int64_t begin, std::int64_t end, std::int64_t columns) {
  memset(static_cast<void*>(rows + begin * columns), 0,
         static_cast<std::size_t>((end - begin) * columns) * sizeof(T));
}

// The end of the tokens of sentence `s`, without padding.
template <class Args>
std::int64_t real_end(const Args& args, std::int64_t s) {
  return args.lengths ? args.cu_seqlens[s] + args.lengths[s] : args.cu_seqlens[s + 1];
}

template <class T, class S = scalar_t<T>>
void pooling(const PoolingArgs& args, Device device) {
  const T* x = static_cast<const T*>(args.x);
  const std::int64_t columns = args.columns;
  for_each(device, args.sentences, 4, [&](std::int64_t s) {
    const std::int64_t begin = args.cu_seqlens[s], end = real_end(args, s);
    S* out = static_cast<S*>(args.out) + s * columns;
    if (args.mode == PoolingMode::mean) mean_row(out, x, begin, end, columns);
    if (args.mode == PoolingMode::cls) copy_row(out, x + begin * columns, columns);
    if (args.mode == PoolingMode::max)
      max_row(out, args.argmax + s * columns, x, begin, end, columns);
  });
}

template <class T, class S = scalar_t<T>>
void pooling_backward(const PoolingBackwardArgs& args, Device device) {
  const std::int64_t columns = args.columns;
  T* grad_x = static_cast<T*>(args.grad_x);
  for_each(device, args.sentences, 4, [&](std::int64_t s) {
    const std::int64_t begin = args.cu_seqlens[s], end = real_end(args, s);
    const S* grad = static_cast<const S*>(args.grad) + s * columns;
    const bool mean = args.mode == PoolingMode::mean;
    clear_rows(grad_x, mean ? end : begin, args.cu_seqlens[s + 1], columns);
    if (mean) {
      const S count = count_of<S>(end - begin);
      for (std::int64_t t = begin; t < end; ++t)
        for_vectors<T>(columns, [&](std::int64_t c, std::int64_t lanes) {
          store_at(grad_x + t * columns, c, lanes, load_at(grad, c, lanes) / count);
        });
    } else if (args.mode == PoolingMode::cls) {
      copy_row(grad_x + begin * columns, grad, columns);
    } else {
      for (std::int64_t c = 0; c < columns; ++c)
        grad_x[args.argmax[s * columns + c] * columns + c] = T(grad[c]);
    }
  });
}

}  // namespace

void register_pooling() {
  RINGLET_SET_FLOATING(cpu, pooling);
  RINGLET_SET_FLOATING(cpu, pooling_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
