#include "ringlet/core/ops/random.h"

#include "ringlet/core/cpu/dropout.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr double kTwoPi = 6.28318530717958647693;

// ---- uniform and normal -------------------------------------------------------------------

void draw(const RandomArgs& args, const std::uint32_t* word, double* value) {
  for (int i = 0; i < 4; i += 2) {
    if (args.distribution == RandomDistribution::uniform) {
      for (int j = i; j < i + 2; ++j)
        value[j] = args.first + (args.second - args.first) * ((word[j] >> 8) * 0x1p-24);
    } else {
      // The first uniform is in (0, 1], so the logarithm is finite.
      const double radius = args.second * ::sqrt(-2 * ::log((word[i] + 1.0) * 0x1p-32));
      const double angle = kTwoPi * (word[i + 1] * 0x1p-32);
      value[i] = args.first + radius * ::cos(angle);
      value[i + 1] = args.first + radius * ::sin(angle);
    }
  }
}

template <class T>
void random(const RandomArgs& args, Device device) {
  T* out = static_cast<T*>(args.out);
  for_each(device, (args.n + 3) / 4, kGrain / 16, [&](std::int64_t block) {
    const auto counter = static_cast<std::uint64_t>(block);
    const PhiloxBlock words = philox(
        {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}},
        args.key);
    double value[4];
    draw(args, words.word, value);
    for (std::int64_t i = 4 * block, j = 0; j < 4 && i + j < args.n; ++j)
      out[i + j] = T(static_cast<scalar_t<T>>(value[j]));
  });
}

// ---- dropout ------------------------------------------------------------------------------

template <class T>
void dropout(const DropoutArgs& args, Device device) {
  const std::int64_t columns = args.columns;
  parallel_for(device, args.rows, kGrain / columns + 1, [&](std::int64_t begin, std::int64_t end) {
    const PhiloxSchedule keys = schedule(key_of(args.dropout));
    const Scratch memory(static_cast<std::size_t>(row_words(columns)) * 4);
    auto* const words = memory.as<std::uint32_t>();
    for (std::int64_t row = begin; row < end; ++row) {
      draw_row(words, args.dropout, keys, row, columns);
      const T* in = static_cast<const T*>(args.in) + row * columns;
      T* out = static_cast<T*>(args.out) + row * columns;
      for_vectors<T>(columns, [&](std::int64_t i, std::int64_t lanes) {
        store_at(out, i, lanes, drop(load_at(in, i, lanes), words + i, args.dropout));
      });
    }
  });
}

}  // namespace

void register_random() {
  RINGLET_SET_FLOATING(cpu, random);
  RINGLET_SET_FLOATING(cpu, dropout);
}

}  // namespace ringlet::cpu::RINGLET_ISA
