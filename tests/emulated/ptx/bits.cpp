// Logic, fields of bits and moves of bytes (9.7.1, 9.7.8).
#include <algorithm>
#include <tuple>

#include "operations.h"

namespace ringlet::emulated {
namespace {

u64 ones(u32 count) { return count < 64 ? (u64{1} << count) - 1 : ~u64{0}; }

template <class T>
T both(T a, T b) {
  return a & b;
}
template <class T>
T either(T a, T b) {
  return a | b;
}
template <class T>
T differing(T a, T b) {
  return a ^ b;
}
template <class T>
T inverted(T a) {
  return static_cast<T>(~a);
}
template <class T>
T move(T a) {
  return a;
}

u32 reversed(u32 a) {
  u32 bits = 0;
  for (int i = 0; i < 32; ++i) bits |= (a >> i & 1) << (31 - i);
  return bits;
}
// The index of the most significant set bit, or the shift that moves it to bit 31. All ones for 0.
u32 find_high(u32 a) { return a ? 31 - static_cast<u32>(std::countl_zero(a)) : ~u32{0}; }
u32 find_shift(u32 a) { return a ? static_cast<u32>(std::countl_zero(a)) : ~u32{0}; }
template <class T>
u32 count_ones(T a) {
  return static_cast<u32>(std::popcount(a));
}
template <class T>
u32 count_leading_zeros(T a) {
  return static_cast<u32>(std::countl_zero(a));
}

template <class T>
T insert_bits(T field, T into, u32 position, u32 length) {
  constexpr u32 kBits = 8 * sizeof(T);
  position &= 255, length &= 255;
  const u64 mask = position < kBits ? ones(length) << position : 0;
  const u64 placed = position < kBits ? u64{field} << position : 0;
  return static_cast<T>((into & ~mask) | (placed & mask));
}
template <class T>
T extract_bits(T from, u32 position, u32 length) {
  constexpr u32 kBits = 8 * sizeof(T);
  position &= 255, length &= 255;
  using Bits = std::make_unsigned_t<T>;
  const bool negative = std::is_signed_v<T> && length > 0 &&
                        (static_cast<Bits>(from) >> std::min(position + length - 1, kBits - 1) & 1);
  const u64 found = position < kBits ? u64{static_cast<Bits>(from)} >> position : 0;
  const u32 kept = position < kBits ? std::min(length, kBits - position) : 0;
  return static_cast<T>((found & ones(kept)) | (negative ? ~ones(kept) : 0));
}
u32 mask_of_bits(u32 position, u32 length) {
  return position < 32 ? static_cast<u32>(ones(std::min(length, 32u)) << position) : 0;
}
// Nibble k of the selector names byte k of the result in {b, a}. Bit 3 replicates its sign.
u32 permute_bytes(u32 a, u32 b, u32 selector) {
  const u64 source = u64{b} << 32 | a;
  u32 out = 0;
  for (int k = 0; k < 4; ++k) {
    const u32 nibble = selector >> (4 * k) & 15;
    u32 byte = static_cast<u32>(source >> (8 * (nibble & 7)) & 255);
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    out |= byte << (8 * k);
  }
  return out;
}
template <bool kLeft, bool kWraps>
u32 funnel_shift(u32 low, u32 high, u32 by) {
  by = kWraps ? by & 31 : std::min(by, 32u);
  const u64 both_words = u64{high} << 32 | low;
  return static_cast<u32>(kLeft ? both_words << by >> 32 : both_words >> by);
}

template <Mask kFunction(Mask, Mask)>
void run_predicates(Warp& warp, const Instruction& at, Mask mask) {
  const Mask b = at.in[1] == kNone ? 0 : predicate(warp, at.in[1]);
  set_predicate(warp, at.out[0], kFunction(predicate(warp, at.in[0]), b), mask);
}
Mask and_masks(Mask a, Mask b) { return a & b; }
Mask or_masks(Mask a, Mask b) { return a | b; }
Mask xor_masks(Mask a, Mask b) { return a ^ b; }
Mask not_mask(Mask a, Mask) { return ~a; }
Mask move_mask(Mask a, Mask) { return a; }

}  // namespace

void add_bit_operations(Operations& to) {
  for_types<u16, u32, u64>([&]<class T>(T) {
    const std::string bits = std::to_string(8 * sizeof(T));
    to["and.b" + bits] = lanewise<both<T>, T, T, T>();
    to["or.b" + bits] = lanewise<either<T>, T, T, T>();
    to["xor.b" + bits] = lanewise<differing<T>, T, T, T>();
    to["not.b" + bits] = lanewise<inverted<T>, T, T>();
    for (const char* type : {"b", "u", "s", "f"})
      to["mov." + (type + bits)] = lanewise<move<T>, T, T>();
  });
  to["cvta.to.global.u64"] = to["cvta.global.u64"] = lanewise<move<u64>, u64, u64>();
  to["brev.b32"] = lanewise<reversed, u32, u32>();
  to["bfind.u32"] = lanewise<find_high, u32, u32>();
  to["bfind.shiftamt.u32"] = lanewise<find_shift, u32, u32>();
  to["popc.b32"] = lanewise<count_ones<u32>, u32, u32>();
  to["popc.b64"] = lanewise<count_ones<u64>, u32, u64>();
  to["clz.b32"] = lanewise<count_leading_zeros<u32>, u32, u32>();
  to["clz.b64"] = lanewise<count_leading_zeros<u64>, u32, u64>();
  to["bfi.b32"] = lanewise<insert_bits<u32>, u32, u32, u32, u32, u32>();
  to["bfi.b64"] = lanewise<insert_bits<u64>, u64, u64, u64, u32, u32>();
  to["bfe.u32"] = lanewise<extract_bits<u32>, u32, u32, u32, u32>();
  to["bfe.s32"] = lanewise<extract_bits<i32>, i32, i32, u32, u32>();
  to["bmsk.clamp.b32"] = lanewise<mask_of_bits, u32, u32, u32>();
  to["prmt.b32"] = lanewise<permute_bytes, u32, u32, u32, u32>();
  to["shf.l.wrap.b32"] = lanewise<funnel_shift<true, true>, u32, u32, u32, u32>();
  to["shf.l.clamp.b32"] = lanewise<funnel_shift<true, false>, u32, u32, u32, u32>();
  to["shf.r.wrap.b32"] = lanewise<funnel_shift<false, true>, u32, u32, u32, u32>();
  to["shf.r.clamp.b32"] = lanewise<funnel_shift<false, false>, u32, u32, u32, u32>();
  to["and.pred"] = {&run_predicates<and_masks>, 0, {0, 0}};
  to["or.pred"] = {&run_predicates<or_masks>, 0, {0, 0}};
  to["xor.pred"] = {&run_predicates<xor_masks>, 0, {0, 0}};
  to["not.pred"] = {&run_predicates<not_mask>, 0, {0}};
  to["mov.pred"] = {&run_predicates<move_mask>, 0, {0}};
}

}  // namespace ringlet::emulated
