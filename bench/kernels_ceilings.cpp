#include "kernels_ceilings.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstring>

#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/parallel.h"
#include "ringlet/core/tensor.h"

namespace ringlet::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- multiply-adds ------------------------------------------------------------------------

// Enough independent sums to hide the latency of the units.
constexpr int kSums = 12;
constexpr int kRounds = 1 << 16;

using FmaLoop = float (*)(float factor);  // kRounds * kSums * lanes multiply-adds

float keep(float value) {
  volatile float sink = value;
  return sink;
}

float portable_loop(float factor) {
  typedef float Vector __attribute__((vector_size(16)));
  Vector sum[kSums] = {};
  for (int round = 0; round < kRounds; ++round)
    for (Vector& s : sum) s = s * factor + factor;
  float total = 0;
  for (const Vector& s : sum) total += s[0];
  return total;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float avx2_loop(float factor) {
  const __m256 f = _mm256_set1_ps(factor);
  __m256 sum[kSums];
  for (auto& s : sum) s = f;
  for (int round = 0; round < kRounds; ++round)
    for (auto& s : sum) s = _mm256_fmadd_ps(s, f, f);
  float total = 0;
  for (const auto& s : sum) total += _mm256_cvtss_f32(s);
  return total;
}

__attribute__((target("avx512f"))) float avx512_loop(float factor) {
  const __m512 f = _mm512_set1_ps(factor);
  __m512 sum[kSums];
  for (auto& s : sum) s = f;
  for (int round = 0; round < kRounds; ++round)
    for (auto& s : sum) s = _mm512_fmadd_ps(s, f, f);
  float total = 0;
  for (const auto& s : sum) total += _mm512_cvtss_f32(s);
  return total;
}
#endif

struct Loop {
  FmaLoop run;
  int lanes;
};
Loop loop_of(cpu::Isa isa) {
#if defined(__x86_64__)
  if (isa == cpu::Isa::avx512) return {avx512_loop, 16};
  if (isa == cpu::Isa::avx2) return {avx2_loop, 8};
#endif
  static_cast<void>(isa);
  return {portable_loop, 4};
}

double measure_flops() {
  const Loop loop = loop_of(cpu::isa());
  const std::int64_t pieces = 16 * threads_per_device();
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double start = now();
    parallel_for(Device{}, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end; ++begin) keep(loop.run(keep(0.5f)));
    });
    const double work = 2.0 * kRounds * kSums * loop.lanes * static_cast<double>(pieces);
    best = std::max(best, work / (now() - start));
  }
  return best;
}

// ---- copies -------------------------------------------------------------------------------

double measure_copy(std::size_t nbytes) {
  const auto n = static_cast<std::int64_t>(nbytes);
  const Tensor from = zeros({n}, DType::u8);
  Tensor to = zeros({n}, DType::u8);
  const std::byte* source = from.bytes();
  std::byte* target = to.mutable_bytes();
  // Small copies are faster on one thread than on several that have to wake up.
  const std::int64_t piece = std::max<std::int64_t>(n / threads_per_device(), 1 << 18);
  const auto copy = [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
  };
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    int times = 0;
    const double start = now();
    double seconds = 0;
    for (; seconds < 0.01; seconds = now() - start, ++times) parallel_for(Device{}, n, piece, copy);
    best = std::max(best, 2.0 * static_cast<double>(nbytes) * times / seconds);
  }
  return best;
}

}  // namespace

Ceilings::Ceilings() : flops_(measure_flops()) {
  for (std::size_t nbytes = std::size_t{1} << 14; nbytes <= std::size_t{1} << 27; nbytes *= 2)
    copies_.push_back({2.0 * static_cast<double>(nbytes), measure_copy(nbytes)});
}

double Ceilings::copy_rate(double bytes) const {
  for (const Copy& copy : copies_)
    if (copy.bytes >= bytes) return copy.rate;
  return copies_.back().rate;
}

double Ceilings::seconds(double flops, double bytes) const {
  return std::max(flops / flops_, bytes / copy_rate(bytes));
}

}  // namespace ringlet::bench
