// The instruction set of the CPU kernels. Every kernel file is compiled once per set, each in a
// separate namespace. At start, the processor's CPUID feature bits select the set. With
// avx512_bf16, VDPBF16PS computes bf16 products and avx512 all else. With amx, tiles compute bf16
// products, and f32 products if less precision is requested; avx512 all else.
#pragma once

#include <string_view>

#include "ringlet/core/device/kernel_families.h"

/// The families of an instruction set, in a namespace of its name.
#define RINGLET_DECLARE_SET(isa)                                              \
  namespace isa {                                                             \
  RINGLET_KERNEL_FAMILIES(RINGLET_DECLARE_FAMILY)                             \
  inline void register_all() { RINGLET_KERNEL_FAMILIES(RINGLET_CALL_FAMILY) } \
  }

namespace ringlet::cpu {

enum class Isa { portable, avx2, avx512, avx512_bf16, amx };

/// The fastest set that processor and system support, or RINGLET_ISA if that is set (InputError if
/// it is unknown or not supported).
Isa isa();
std::string_view name(Isa isa);  // "avx512"
bool supported(Isa isa);

RINGLET_DECLARE_SET(portable)
RINGLET_DECLARE_SET(avx2)
RINGLET_DECLARE_SET(avx512)

/// Fills the kernel tables for the instruction set in use.
void register_kernels();

}  // namespace ringlet::cpu
