#include "ceilings.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/tensor/tensor.h"
#include "ringlet/core/threads/parallel.h"

namespace ringlet::bench {
namespace {

// ---- multiply-adds ------------------------------------------------------------------------

// Enough independent sums to hide the latency of the units; unrolled, they stay in registers. Each
// starts from a different number, or the compiler would merge them.
constexpr int kSums = 12;
constexpr int kRounds = 1 << 16;

using FmaLoop = float (*)(float factor);  // kRounds * kSums multiply-adds of a vector

float keep(float value) {
  volatile float sink = value;
  return sink;
}

float portable_loop(float factor) {
  typedef float Vector __attribute__((vector_size(16)));
  Vector sum[kSums];
  for (int i = 0; i < kSums; ++i) sum[i] = factor * static_cast<float>(i) - Vector{};
  for (int round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
    for (Vector& s : sum) s = s * factor + factor;
  float total = 0;
  for (const Vector& s : sum) total += s[0];
  return total;
}

#if defined(__x86_64__)
// A template would not have the target of its caller.
#define RINGLET_BENCH_FMA_LOOP(name, isa, bits, add)                                              \
  __attribute__((target(isa))) float name(float factor) {                                         \
    const __m##bits f = _mm##bits##_set1_ps(factor);                                              \
    __m##bits sum[kSums];                                                                         \
    for (int i = 0; i < kSums; ++i) sum[i] = _mm##bits##_set1_ps(factor * static_cast<float>(i)); \
    for (int round = 0; round < kRounds; ++round)                                                 \
      _Pragma("GCC unroll 12") for (auto& s : sum) s = add;                                       \
    float total = 0;                                                                              \
    for (const auto& s : sum) total += _mm##bits##_cvtss_f32(s);                                  \
    return total;                                                                                 \
  }
RINGLET_BENCH_FMA_LOOP(avx2_loop, "avx2,fma", 256, _mm256_fmadd_ps(s, f, f))
RINGLET_BENCH_FMA_LOOP(avx512_loop, "avx512f", 512, _mm512_fmadd_ps(s, f, f))
// Each lane adds the products of two pairs of bf16.
RINGLET_BENCH_FMA_LOOP(avx512_bf16_loop, "avx512f,avx512bf16", 512,
                       _mm512_dpbf16_ps(s, _mm512_cvtne2ps_pbh(f, f), _mm512_cvtne2ps_pbh(f, f)))
#undef RINGLET_BENCH_FMA_LOOP

// Tiles of 16 x 16 sums, 32 products each.
__attribute__((target("amx-tile,amx-bf16"))) float amx_loop(float factor) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t bytes_per_line[16] = {64, 64, 64, 64, 64, 64};
    std::uint8_t lines[16] = {16, 16, 16, 16, 16, 16};
  } const config;
  // The intrinsic does not tell the compiler that all of `config` is read.
  asm volatile("ldtilecfg %0" ::"m"(config));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int round = 0; round < kRounds * kSums / 4; ++round) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return factor;
}
#endif

struct Loop {
  FmaLoop run;
  int products;  // of a vector
};
Loop loop_of(cpu::Isa isa, DType dtype) {
#if defined(__x86_64__)
  if (dtype == DType::bf16 && isa == cpu::Isa::amx) return {amx_loop, 16 * 16 * 32};
  if (dtype == DType::bf16 && isa == cpu::Isa::avx512_bf16) return {avx512_bf16_loop, 32};
  if (isa >= cpu::Isa::avx512) return {avx512_loop, 16};
  if (isa == cpu::Isa::avx2) return {avx2_loop, 8};
#endif
  static_cast<void>(isa), static_cast<void>(dtype);
  return {portable_loop, 4};
}

double measure_flops(Device device, DType dtype) {
  const Loop loop = loop_of(cpu::isa(), dtype);
  const std::int64_t pieces = 16 * threads_per_device();
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double start = steady_seconds();
    parallel_for(device, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end; ++begin) keep(loop.run(keep(0.5f)));
    });
    const double work = 2.0 * kRounds * kSums * loop.products * static_cast<double>(pieces);
    best = std::max(best, work / (steady_seconds() - start));
  }
  return best;
}

// ---- copies -------------------------------------------------------------------------------

double measure_copy(Device device, std::size_t nbytes) {
  const auto n = static_cast<std::int64_t>(nbytes);
  const Tensor from = noise(device, nbytes);
  Tensor to = noise(device, nbytes);
  const std::byte* source = from.bytes();
  std::byte* target = to.mutable_bytes();
  // Small copies are faster on one thread than on several that must be woken.
  const std::int64_t piece = std::max<std::int64_t>(n / threads_per_device(), 1 << 18);
  const auto copy = [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
  };
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    int times = 0;
    const double start = steady_seconds();
    double seconds = 0;
    for (; seconds < 0.01; seconds = steady_seconds() - start, ++times)
      parallel_for(device, n, piece, copy);
    best = std::max(best, 2.0 * static_cast<double>(nbytes) * times / seconds);
  }
  return best;
}

// ---- repeated work ------------------------------------------------------------------------

constexpr int kBatches = 5;
constexpr int kMostAhead = 200;       // runs; as many fit into the device's queue
constexpr double kLeastRun = 1e-6;    // seconds
constexpr double kHoldMargin = 1e-4;  // seconds, added to 1.5 times the host's time

}  // namespace

double device_seconds(Device device, const std::function<void()>& run, double least) {
  run();  // warms up memory, plans and packed weights
  synchronize(device);
  const auto start = device_time(device);
  const double host_start = steady_seconds();
  run();
  const double host = steady_seconds() - host_start;
  const double each = std::max(device_time(device)->seconds_since(*start), kLeastRun);
  const int runs = static_cast<int>(std::clamp<double>(least / kBatches / each, 1, kMostAhead));
  std::vector<double> batches;
  for (int batch = 0; batch < kBatches; ++batch) {
    hold(device, 1.5 * host * runs + kHoldMargin);
    const auto begin = device_time(device);
    for (int i = 0; i < runs; ++i) run();
    batches.push_back(device_time(device)->seconds_since(*begin) / runs);
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

double product_rate(Device device, DType dtype, std::int64_t n) {
  const auto matrix = [&] { return uniform({n, n}, -1, 1, DType::f32, device).to(dtype); };
  const Tensor a = matrix(), b = matrix();
  Tensor out = empty({n, n}, dtype, device);
  const auto size = static_cast<double>(n);
  return 2 * size * size * size /
         device_seconds(device, [&] { matmul_into(out, a, b, {.trans_b = true}); });
}

Tensor noise(Device device, std::size_t nbytes) {
  return uniform({static_cast<std::int64_t>(nbytes / sizeof(float))}, -1, 1, DType::f32, device);
}

double copy_rate(Device device, std::size_t nbytes) {
  const Tensor from = noise(device, nbytes);
  Tensor to = noise(device, nbytes);
  return 2 * static_cast<double>(nbytes) / device_seconds(device, [&] { to.copy_(from); });
}

Ceilings::Ceilings(Device device) {
  const bool cpu = device.type == DeviceType::cpu;
  constexpr std::int64_t kProduct = 8192;  // many times more tiles than multiprocessors
  const auto flops = [&](DType dtype) {
    return cpu ? measure_flops(device, dtype) : product_rate(device, dtype, kProduct);
  };
  f32_flops_ = flops(DType::f32), bf16_flops_ = flops(DType::bf16);
  // The largest copy fits no cache.
  for (std::size_t nbytes = 1 << 14; nbytes <= std::size_t{1} << (cpu ? 27 : 30); nbytes *= 2)
    copies_.push_back({2.0 * static_cast<double>(nbytes),
                       cpu ? measure_copy(device, nbytes) : bench::copy_rate(device, nbytes)});
}

double Ceilings::copy_rate(double bytes) const {
  for (const Copy& copy : copies_)
    if (copy.bytes >= bytes) return copy.rate;
  return copies_.back().rate;
}

double Ceilings::seconds(double flops, double bytes, DType dtype) const {
  return std::max(flops / this->flops(dtype), bytes / copy_rate(bytes));
}

}  // namespace ringlet::bench
