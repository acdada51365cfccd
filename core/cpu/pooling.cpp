#include "ringlet/core/ops/pooling.h"

#include "ringlet/core/cpu/copy_row.h"
#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/threads/parallel.h"

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

template <class T, class S = scalar_t<T>>
RINGLET_INLINE void divide_row(T* to, const S* from, S divisor, std::int64_t columns) {
  for_vectors<T>(columns, [&](std::int64_t c, std::int64_t lanes) {
    store_at(to, c, lanes, load_at(from, c, lanes) / divisor);
  });
}

// The end of the tokens of sentence `s`, without padding.
template <class Args>
std::int64_t real_end(const Args& args, std::int64_t s) {
  return args.lengths ? args.cu_seqlens[s] + args.lengths[s] : args.cu_seqlens[s + 1];
}

void pooling(const PoolingArgs& args, Device device) {
  dispatch_floating("pooling", args.dtype, [&]<class T>() {
    using S = scalar_t<T>;
    const T* x = static_cast<const T*>(args.x);
    const std::int64_t columns = args.columns;
    parallel_for(device, args.sentences, 4, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t s = first; s < last; ++s) {
        const std::int64_t begin = args.cu_seqlens[s], end = real_end(args, s);
        S* out = static_cast<S*>(args.out) + s * columns;
        if (args.mode == PoolingMode::mean) mean_row(out, x, begin, end, columns);
        if (args.mode == PoolingMode::cls) copy_row(out, x + begin * columns, columns);
        if (args.mode == PoolingMode::max)
          max_row(out, args.argmax + s * columns, x, begin, end, columns);
      }
    });
  });
}

void pooling_backward(const PoolingBackwardArgs& args, Device device) {
  dispatch_floating("pooling_backward", args.dtype, [&]<class T>() {
    using S = scalar_t<T>;
    const std::int64_t columns = args.columns;
    T* grad_x = static_cast<T*>(args.grad_x);
    parallel_for(device, args.sentences, 4, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t s = first; s < last; ++s) {
        const std::int64_t begin = args.cu_seqlens[s], end = real_end(args, s);
        const std::int64_t padding = args.cu_seqlens[s + 1] - end;
        memset(static_cast<void*>(grad_x + end * columns), 0,
               static_cast<std::size_t>(padding * columns) * sizeof(T));
        const S* grad = static_cast<const S*>(args.grad) + s * columns;
        if (args.mode == PoolingMode::mean) {
          for (std::int64_t t = begin; t < end; ++t)
            divide_row(grad_x + t * columns, grad, count_of<S>(end - begin), columns);
          continue;
        }
        memset(static_cast<void*>(grad_x + begin * columns), 0,
               static_cast<std::size_t>((end - begin) * columns) * sizeof(T));
        if (args.mode == PoolingMode::cls)
          copy_row(grad_x + begin * columns, grad, columns);
        else
          for (std::int64_t c = 0; c < columns; ++c)
            grad_x[args.argmax[s * columns + c] * columns + c] = T(grad[c]);
      }
    });
  });
}

}  // namespace

void register_pooling() {
  pooling_kernel.set(DeviceType::cpu, pooling);
  pooling_backward_kernel.set(DeviceType::cpu, pooling_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
