// Which instruction set the CPU kernels use. Every kernel file is compiled once per set, in a
// namespace of its own, and the processor's CPUID feature bits choose among them at start.
// avx512_bf16 is avx512 with products of bf16 by VDPBF16PS, amx is avx512 with products of bf16
// by tiles, and of f32 where less than f32 is asked.
#pragma once

#include <string_view>

namespace ringlet::cpu {

enum class Isa { portable, avx2, avx512, avx512_bf16, amx };

/// The fastest set this processor and system offer, or RINGLET_ISA where that is set (InputError
/// when it is unknown or the processor lacks it).
Isa isa();
std::string_view name(Isa isa);  // "avx512"
bool supported(Isa isa);

}  // namespace ringlet::cpu
