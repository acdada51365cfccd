#include "ringlet/core/ops/random.h"

#include <math.h>

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/divider.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/row_dropout.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

// The operations are those of core/cpu/random.cpp.

/// The words of elements [4 block, 4 block + 4) of a random tensor.
RINGLET_HOST_DEVICE PhiloxBlock tensor_words(std::int64_t block, PhiloxKey key) {
  const auto counter = static_cast<std::uint64_t>(block);
  return philox(
      {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}},
      key);
}

/// low + (high - low) u, where u in [0, 1) is a multiple of 2^-24.
RINGLET_HOST_DEVICE double uniform_of(std::uint32_t word, double low, double high) {
  return low + (high - low) * ((word >> 8) * 0x1p-24);
}

struct NormalPair {
  double first, second;
};
/// Box-Muller. The first uniform is in (0, 1], so the logarithm is finite.
RINGLET_HOST_DEVICE NormalPair normal_of(std::uint32_t first, std::uint32_t second, double mean,
                                         double std) {
  const double radius = std * ::sqrt(-2 * ::log((first + 1.0) * 0x1p-32));
  const double angle = 6.28318530717958647693 * (second * 0x1p-32);
  return {mean + radius * ::cos(angle), mean + radius * ::sin(angle)};
}

/// The words of columns [4 block, 4 block + 4) of a row of activations.
RINGLET_HOST_DEVICE PhiloxBlock row_words(const RowDropout& dropout, std::int64_t row,
                                          std::int64_t block) {
  const RowPlace place = place_of(dropout, row);
  return philox({{place.sentence, place.token, 0, static_cast<std::uint32_t>(block)}},
                key_of(dropout));
}

/// x / (1 - p) if the word keeps it, else +0, for every x.
template <class S>
RINGLET_HOST_DEVICE S drop(S x, std::uint32_t word, const DropoutMask& dropout) {
  return word >= dropout.threshold ? x * static_cast<S>(dropout.scale) : S{0};
}

namespace {

/// Four elements, from one Philox block, as one word or two.
template <class T>
struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) Four {
  T element[4];
};

template <class T>
__global__ void draw_blocks(T* out, std::int64_t n, RandomDistribution distribution, double first,
                            double second, PhiloxKey key, bool aligned) {
  using S = compute_t<T>;
  grid_stride((n + 3) / 4, [&](std::int64_t block) {
    const PhiloxBlock words = tensor_words(block, key);
    Four<T> four;
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      NormalPair pair;
      if (distribution == RandomDistribution::uniform) {
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

// ---- launchers ----------------------------------------------------------------------------

template <class T, class... Pointers>
bool four_at_once(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % alignof(Four<T>) == 0) && ...);
}

template <class T>
void random(const RandomArgs& args, Device device) {
  auto* out = static_cast<T*>(args.out);
  launch("random", device, draw_blocks<T>, grid_for((args.n + 3) / 4), kThreads, 0, out, args.n,
         args.distribution, args.first, args.second, args.key, four_at_once<T>(out));
}

std::int64_t blocks_of(const DropoutArgs& args) { return (args.columns + 3) / 4; }

template <class T>
void dropout(const DropoutArgs& args, Device device) {
  auto* out = static_cast<T*>(args.out);
  const auto* in = static_cast<const T*>(args.in);
  const bool whole = args.columns % 4 == 0 && four_at_once<T>(out, in);
  launch("dropout", device, drop_blocks<T>, grid_for(args.rows * blocks_of(args)), kThreads, 0, out,
         in, args.rows, args.columns, Divider(blocks_of(args)), args.dropout, whole);
}

}  // namespace

void register_random() {
  RINGLET_SET_FLOATING(cuda, random);
  RINGLET_SET_FLOATING(cuda, dropout);
}

}  // namespace ringlet::cuda
