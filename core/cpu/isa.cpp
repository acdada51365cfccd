#include "ringlet/core/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <array>
#include <cstdlib>

#include "core/isa_settings.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/names.h"
#include "ringlet/core/cpu/gemm_operand.h"

namespace ringlet::cpu {
namespace {

constexpr std::array<std::string_view, 5> kNames{"portable", "avx2", "avx512", "avx512_bf16",
                                                 "amx"};

#if defined(__x86_64__)
struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
// Some compilers' __builtin_cpu_supports lacks some of these features.
Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}
bool converts_halves() { return (cpuid(1, 0).ecx & bit_F16C) != 0; }
[[maybe_unused]] bool multiplies_pairs() { return (cpuid(7, 1).eax >> 5 & 1) != 0; }  // AVX512_BF16
bool multiplies_tiles() {  // AMX-BF16, AMX-TILE
  const unsigned edx = cpuid(7, 0).edx;
  return (edx >> 22 & 1) != 0 && (edx >> 24 & 1) != 0;
}

// Whether the system saves tiles and permits their use; requests permission once, for all threads.
[[maybe_unused]] bool may_use_tiles() {
  if ((cpuid(1, 0).ecx & bit_OSXSAVE) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3u << 17;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return (low & kTileState) == kTileState && granted;
}
#else
bool multiplies_tiles() { return false; }
#endif

// On processors with AMX, VDPBF16PS takes twice the time of FMA for the same numbers.
Isa fastest() {
  if (supported(Isa::amx)) return Isa::amx;
  if (supported(Isa::avx512_bf16) && !multiplies_tiles()) return Isa::avx512_bf16;
  for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::portable})
    if (supported(isa)) return isa;
  fail_input("this build has no kernels for this processor (Meson option isa)");
}

Isa choose() {
  const char* wanted = std::getenv("RINGLET_ISA");
  if (!wanted || !*wanted) return fastest();
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != wanted) continue;
    if (!supported(static_cast<Isa>(i)))
      fail_input("RINGLET_ISA=", wanted,
                 ": not of this processor or not allowed by the system, or not built (Meson "
                 "option isa)");
    return static_cast<Isa>(i);
  }
  fail_input("RINGLET_ISA=", wanted, " is unknown; expected ", list_names(kNames));
}

}  // namespace

bool supported(Isa isa) {
#if defined(RINGLET_HAS_PORTABLE)
  if (isa == Isa::portable) return true;
#endif
#if defined(__x86_64__)
  // The builtin also checks with XGETBV that the system saves the wide registers.
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && converts_halves();
#if defined(RINGLET_HAS_AVX2)
  if (isa == Isa::avx2) return avx2;
#endif
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
#if defined(RINGLET_HAS_AVX512)
  if (isa == Isa::avx512) return avx512;
  if (isa == Isa::amx) return avx512 && multiplies_tiles() && may_use_tiles();
  if (isa == Isa::avx512_bf16) return avx512 && multiplies_pairs();
#endif
  static_cast<void>(avx512);
#endif
  return false;
}

Isa isa() {
  static const Isa chosen = choose();
  return chosen;
}

std::string_view name(Isa isa) { return kNames[static_cast<std::size_t>(isa)]; }

GemmUnits gemm_units;

void register_kernels() {
  switch (isa()) {
#if defined(RINGLET_HAS_PORTABLE)
    case Isa::portable:
      return portable::register_all();
#endif
#if defined(RINGLET_HAS_AVX2)
    case Isa::avx2:
      return avx2::register_all();
#endif
#if defined(RINGLET_HAS_AVX512)
    case Isa::avx512_bf16:
      gemm_units.bf16 = avx512_bf16::multiply_bf16;
      return avx512::register_all();
    case Isa::amx:
      gemm_units = {amx::multiply_bf16, amx::multiply_high};
      return avx512::register_all();
    case Isa::avx512:
      return avx512::register_all();
#endif
    default:
      return;
  }
}

}  // namespace ringlet::cpu
