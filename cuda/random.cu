#include "ringlet/cuda/random.h"

#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/divider.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/register.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {
namespace {

/// Four elements, from one Philox block, as one word or two.
template <class T>
struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) Four {
  T element[4];
};

template <class T>
__global__ void draw_blocks(T* out, std::int64_t n, Distribution distribution, double first,
                            double second, PhiloxKey key, bool aligned) {
  using S = compute_t<T>;
  grid_stride((n + 3) / 4, [&](std::int64_t block) {
    const PhiloxBlock words = tensor_words(block, key);
    Four<T> four;
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      NormalPair pair;
      if (distribution == Distribution::uniform) {
        pair = {uniform_of(words.word[j], first, second),
                uniform_of(words.word[j + 1], first, second)};
      } else {
        pair = normal_of(words.word[j], words.word[j + 1], first, second);
      }
      four.element[j] = from_compute<T>(static_cast<S>(pair.first));
      four.element[j + 1] = from_compute<T>(static_cast<S>(pair.second));
    }
    if (aligned && 4 * block + 4 <= n) {
      reinterpret_cast<Four<T>*>(out)[block] = four;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (4 * block + j < n) out[4 * block + j] = four.element[j];
    }
  });
}

// Philox blocks of the rows, in order. `whole`: rows are multiples of a block, at aligned
// addresses.
template <class T>
__global__ void drop_blocks(T* out, const T* in, std::int64_t rows, std::int64_t columns,
                            Divider blocks, RowDropout dropout, bool whole) {
  grid_stride(rows * blocks.divisor(), [&](std::int64_t i) {
    const Division at = divide(i, blocks);
    const PhiloxBlock words = row_words(dropout, at.quotient, at.remainder);
    const std::int64_t first = at.quotient * columns + 4 * at.remainder;
    const auto dropped = [&](T x, int j) {
      return from_compute<T>(drop(to_compute(x), words.word[j], dropout));
    };
    if (whole) {
      Four<T> four = *reinterpret_cast<const Four<T>*>(in + first);
#pragma unroll
      for (int j = 0; j < 4; ++j) four.element[j] = dropped(four.element[j], j);
      *reinterpret_cast<Four<T>*>(out + first) = four;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (4 * at.remainder + j < columns) out[first + j] = dropped(in[first + j], j);
    }
  });
}

__global__ void mask_blocks(std::uint8_t* out, std::int64_t rows, std::int64_t columns,
                            Divider blocks, RowDropout dropout) {
  grid_stride(rows * blocks.divisor(), [&](std::int64_t i) {
    const Division at = divide(i, blocks);
    const PhiloxBlock words = row_words(dropout, at.quotient, at.remainder);
    const std::int64_t first = at.quotient * columns + 4 * at.remainder;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (4 * at.remainder + j < columns) out[first + j] = words.word[j] >= dropout.threshold;
  });
}

// ---- launchers ----------------------------------------------------------------------------

template <class T, class... Pointers>
bool four_at_once(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % alignof(Four<T>) == 0) && ...);
}

void random(const RandomArgs& args, Device device) {
  dispatch_floating("random", args.dtype, [&]<class T>() {
    auto* out = static_cast<T*>(args.out);
    launch("random", device, draw_blocks<T>, grid_for((args.n + 3) / 4), kThreads, 0, out, args.n,
           args.distribution, args.first, args.second, args.key, four_at_once<T>(out));
  });
}

std::int64_t blocks_of(const DropoutArgs& args) { return (args.columns + 3) / 4; }

void dropout(const DropoutArgs& args, Device device) {
  dispatch_floating("dropout", args.dtype, [&]<class T>() {
    auto* out = static_cast<T*>(args.out);
    const auto* in = static_cast<const T*>(args.in);
    const bool whole = args.columns % 4 == 0 && four_at_once<T>(out, in);
    launch("dropout", device, drop_blocks<T>, grid_for(args.rows * blocks_of(args)), kThreads, 0,
           out, in, args.rows, args.columns, Divider(blocks_of(args)), args.dropout, whole);
  });
}

void dropout_mask(const DropoutArgs& args, Device device) {
  launch("dropout_mask", device, mask_blocks, grid_for(args.rows * blocks_of(args)), kThreads, 0,
         static_cast<std::uint8_t*>(args.out), args.rows, args.columns, Divider(blocks_of(args)),
         args.dropout);
}

}  // namespace

void register_random() {
  random_kernel.set(DeviceType::cuda, random);
  dropout_kernel.set(DeviceType::cuda, dropout);
  dropout_mask_kernel.set(DeviceType::cuda, dropout_mask);
}

}  // namespace ringlet::cuda
