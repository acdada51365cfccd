#include "ringlet/core/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstdlib>

#include "ringlet/core/error.h"

namespace ringlet::cpu {
namespace {

constexpr std::array<std::string_view, 3> kNames{"portable", "avx2", "avx512"};

Isa choose() {
  const char* wanted = std::getenv("RINGLET_ISA");
  if (!wanted || !*wanted)
    return supported(Isa::avx512) ? Isa::avx512
                                  : (supported(Isa::avx2) ? Isa::avx2 : Isa::portable);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != wanted) continue;
    if (!supported(static_cast<Isa>(i)))
      fail_input("RINGLET_ISA=", wanted,
                 ": not of this processor, or not built (Meson option isa)");
    return static_cast<Isa>(i);
  }
  fail_input("RINGLET_ISA=", wanted, " is unknown; expected portable, avx2 or avx512");
}

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows F16C.
bool converts_halves() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

bool supported(Isa isa) {
  if (isa == Isa::portable) return true;
#if defined(__x86_64__)
  // The builtin also asks XGETBV whether the system saves the wide registers.
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && converts_halves();
#if defined(RINGLET_HAS_AVX2)
  if (isa == Isa::avx2) return avx2;
#endif
#if defined(RINGLET_HAS_AVX512)
  if (isa == Isa::avx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  static_cast<void>(avx2);
#endif
  return false;
}

Isa isa() {
  static const Isa chosen = choose();
  return chosen;
}

std::string_view name(Isa isa) { return kNames[static_cast<std::size_t>(isa)]; }

}  // namespace ringlet::cpu
