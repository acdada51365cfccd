#include "ringlet/core/ops/combine.h"

#include <limits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// ---- f16 ----------------------------------------------------------------------------------

RINGLET_INLINE f32x16 widen_f16(u16x16 half) {
#if defined(__AVX512F__)
  return bits_as<f32x16>(_mm512_maskz_cvtph_ps(0xffff, bits_as<__m256i>(half)));
#elif defined(__F16C__)
  const __m256i bits = bits_as<__m256i>(half);
  const auto low = bits_as<f32x8>(_mm256_cvtph_ps(_mm256_castsi256_si128(bits)));
  const auto high = bits_as<f32x8>(_mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1)));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  f32x16 v;
  for (int i = 0; i < 16; ++i) {
    float16 one;
    one.bits = half[i];
    v[i] = static_cast<float>(one);
  }
  return v;
#endif
}

RINGLET_INLINE u16x16 round_to_f16(f32x16 v) {
#if defined(__AVX512F__)
  return bits_as<u16x16>(
      _mm512_maskz_cvtps_ph(0xffff, bits_as<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  const f32x8 low = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  const f32x8 high = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  return bits_as<u16x16>(
      _mm256_set_m128i(_mm256_cvtps_ph(bits_as<__m256>(high), _MM_FROUND_TO_NEAREST_INT),
                       _mm256_cvtps_ph(bits_as<__m256>(low), _MM_FROUND_TO_NEAREST_INT)));
#else
  u16x16 half;
  for (int i = 0; i < 16; ++i) half[i] = float16(v[i]).bits;
  return half;
#endif
}

// ---- the element types --------------------------------------------------------------------

// Loads, adds and stores T in vectors of kLanes. `count` < kLanes: a tail, padded with zeros.
template <class T>
struct Elements {
  using Vector = vector_t<T>;
  static constexpr std::int64_t kLanes = Compute<T>::kLanes;
  RINGLET_INLINE Vector read(const T* from, std::int64_t count) { return load_at(from, 0, count); }
  RINGLET_INLINE void write(T* to, std::int64_t count, Vector v) { store_at(to, 0, count, v); }
  RINGLET_INLINE Vector add(Vector a, Vector b) { return a + b; }
  RINGLET_INLINE Vector larger(Vector a, Vector b) {
    return a != a ? a : (b > a || b != b ? b : a);
  }
  RINGLET_INLINE Vector scaled(Vector v, double scale) {
    return v * splat(static_cast<scalar_t<T>>(scale));
  }
};

template <>
struct Elements<float16> : Elements<float> {
  RINGLET_INLINE f32x16 read(const float16* from, std::int64_t count) {
    u16x16 half{};
    memcpy(&half, from, count == kLanes ? sizeof(half) : static_cast<size_t>(count) * 2);
    return widen_f16(half);
  }
  RINGLET_INLINE void write(float16* to, std::int64_t count, f32x16 v) {
    const u16x16 half = round_to_f16(v);
    memcpy(static_cast<void*>(to), &half,
           count == kLanes ? sizeof(half) : static_cast<size_t>(count) * 2);
  }
};

// Sums use unsigned numbers, which wrap around.
template <class T, class Unsigned>
struct Integers {
  typedef T Vector __attribute__((vector_size(64)));
  typedef Unsigned Wrapping __attribute__((vector_size(64)));
  static constexpr std::int64_t kLanes = 64 / sizeof(T);
  RINGLET_INLINE Vector read(const T* from, std::int64_t count) {
    Vector v{};
    memcpy(&v, from, count == kLanes ? sizeof(v) : static_cast<size_t>(count) * sizeof(T));
    return v;
  }
  RINGLET_INLINE void write(T* to, std::int64_t count, Vector v) {
    memcpy(to, &v, count == kLanes ? sizeof(v) : static_cast<size_t>(count) * sizeof(T));
  }
  RINGLET_INLINE Vector add(Vector a, Vector b) {
    return bits_as<Vector>(bits_as<Wrapping>(a) + bits_as<Wrapping>(b));
  }
  RINGLET_INLINE Vector larger(Vector a, Vector b) { return a > b ? a : b; }
  RINGLET_INLINE Vector scaled(Vector v, double) { return v; }
};
template <>
struct Elements<std::int32_t> : Integers<std::int32_t, std::uint32_t> {};
template <>
struct Elements<std::int64_t> : Integers<std::int64_t, std::uint64_t> {};
template <>
struct Elements<std::uint8_t> : Integers<std::uint8_t, std::uint8_t> {};

// ---- the loop -----------------------------------------------------------------------------

// Vectors of `count` elements of the sources from `at` on, combined by their tree.
template <class T, CombineOp op>
struct Tree {
  using E = Elements<T>;
  using Vector = typename E::Vector;
  const CombineArgs& args;
  std::int64_t at, count;

  RINGLET_INLINE Vector joined(Vector a, Vector b) {
    return op == CombineOp::max ? E::larger(a, b) : E::add(a, b);
  }
  __attribute__((always_inline)) Vector source(int k, int vector = 0) const {
    return E::read(static_cast<const T*>(args.sources[k]) + at + vector * E::kLanes, count);
  }
  /// At most 4 leaves: all sums in registers.
  template <int begin, int end>
  __attribute__((always_inline)) Vector of_leaves() const {
    if constexpr (begin + 1 == end) {
      return source(begin);
    } else {
      constexpr int middle = begin + (end - begin > 2 ? 2 : 1);
      return joined(of_leaves<begin, middle>(), of_leaves<middle, end>());
    }
  }
  /// Any sources: the top of the stack in registers, several vectors at a time.
  template <int kVectors>
  __attribute__((always_inline)) void by_stack(Vector* top) const {
    Vector below[std::numeric_limits<int>::digits][kVectors];
    int depth = 0;
    const auto each = [](const auto& body) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) body(j);
    };
    each([&](int j) __attribute__((always_inline)) { top[j] = source(0, j); });
    for (int k = 1; k < args.count; ++k) {
      int additions = args.additions_after(k);
      if (additions == 0) {
        each([&](int j) __attribute__((always_inline)) {
          below[depth][j] = top[j];
          top[j] = source(k, j);
        });
        ++depth;
        continue;
      }
      each([&](int j) __attribute__((always_inline)) { top[j] = joined(top[j], source(k, j)); });
      while (--additions > 0) {
        --depth;
        each([&](int j)
                 __attribute__((always_inline)) { top[j] = joined(below[depth][j], top[j]); });
      }
    }
  }
};

// `known` is the number of leaves as a compile-time constant, or 0.
template <class T, CombineOp op, int known>
void run(const CombineArgs& given) {
  using E = Elements<T>;
  // Copies, which stores to `out` cannot change.
  CombineArgs args = given;
  const void* sources[known > 0 ? known : 1];
  for (int k = 0; k < known; ++k) sources[k] = given.sources[k];
  if (known > 0) args.sources = sources;
  constexpr int kVectors = known > 0 ? 1 : 4;
  const auto combined = [&]<int vectors>(std::int64_t i, std::int64_t n)
      __attribute__((always_inline)) {
    const Tree<T, op> tree{args, i, n};
    typename E::Vector sums[vectors];
    if constexpr (known > 0) {
      sums[0] = tree.template of_leaves<0, known>();
    } else {
      tree.template by_stack<vectors>(sums);
    }
    for (int j = 0; j < vectors; ++j) {
      if (args.scale != 1) sums[j] = E::scaled(sums[j], args.scale);
      E::write(static_cast<T*>(args.out) + i + j * E::kLanes, n, sums[j]);
    }
  };
  std::int64_t i = 0;
  for (; i + kVectors * E::kLanes <= args.n; i += kVectors * E::kLanes)
    combined.template operator()<kVectors>(i, E::kLanes);
  for (; i + E::kLanes <= args.n; i += E::kLanes) combined.template operator()<1>(i, E::kLanes);
  if (i < args.n) combined.template operator()<1>(i, args.n - i);
}

template <class T>
void run(const CombineArgs& args) {
  if (args.op == CombineOp::max) return run<T, CombineOp::max, 0>(args);
  switch (args.additions ? 0 : args.count) {
    case 2:
      return run<T, CombineOp::sum, 2>(args);
    case 3:
      return run<T, CombineOp::sum, 3>(args);
    case 4:
      return run<T, CombineOp::sum, 4>(args);
    default:
      return run<T, CombineOp::sum, 0>(args);
  }
}

void combine(const CombineArgs& args, Device) {
  dispatch_all("combine", args.dtype, [&]<class T>() { run<T>(args); });
}

}  // namespace

void register_combine() { combine_kernel.set(DeviceType::cpu, combine); }

}  // namespace ringlet::cpu::RINGLET_ISA
