// Extended-precision arithmetic (PTX manual, 9.7.2): the carry flag is one bit per lane.
#include <tuple>

#include "operations.h"

namespace ringlet::emulated {
namespace {

enum class What { add, subtract, multiply_add_low, multiply_add_high };

/// The result in the low word, the carry or borrow in bit 32.
template <What kWhat>
u64 compute(u32 a, u32 b, u32 c, u64 carry) {
  if constexpr (kWhat == What::add) return u64{a} + b + carry;
  if constexpr (kWhat == What::subtract) {
    const u64 difference = u64{a} - b - carry;
    return (difference & 0xffffffff) | (difference >> 63 << 32);
  }
  const u64 product = u64{a} * b;
  return (kWhat == What::multiply_add_low ? product & 0xffffffff : product >> 32) + c + carry;
}

template <What kWhat, bool kReads, bool kWrites>
void run(Warp& warp, const Instruction& at, Mask mask) {
  constexpr bool kThree = kWhat == What::multiply_add_low || kWhat == What::multiply_add_high;
  const u32 *a = cells<u32>(warp, at.in[0]), *b = cells<u32>(warp, at.in[1]);
  const u32* c = kThree ? cells<u32>(warp, at.in[2]) : a;
  u32* const out = result<u32>(warp, at.out[0]);
  Mask carries = 0;
  for_lanes(mask, [&](int lane) {
    const u64 in = kReads ? warp.carry >> lane & 1 : 0;
    const u64 value = compute<kWhat>(a[lane], b[lane], c[lane], in);
    out[lane] = static_cast<u32>(value);
    carries |= static_cast<Mask>(value >> 32 & 1) << lane;
  });
  if (kWrites) warp.carry = (warp.carry & ~mask) | carries;
}

template <What kWhat>
void add_forms(Operations& to, const std::string& name, const std::string& rest, std::size_t in) {
  const std::vector<std::uint8_t> operands(in, 4);
  for (const char* type : {".u32", ".s32"}) {
    to[name + rest + ".cc" + type] = {&run<kWhat, false, true>, 4, operands};
    to[name + "c" + rest + ".cc" + type] = {&run<kWhat, true, true>, 4, operands};
    to[name + "c" + rest + type] = {&run<kWhat, true, false>, 4, operands};
  }
}

}  // namespace

void add_carry_operations(Operations& to) {
  add_forms<What::add>(to, "add", "", 2);
  add_forms<What::subtract>(to, "sub", "", 2);
  add_forms<What::multiply_add_low>(to, "mad", ".lo", 3);
  add_forms<What::multiply_add_high>(to, "mad", ".hi", 3);
}

}  // namespace ringlet::emulated
