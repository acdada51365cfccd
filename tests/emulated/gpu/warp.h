// A warp: 32 threads of a block with their registers and program positions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "../ptx/program.h"

namespace ringlet::emulated {

struct Block;

/// A group of lanes at the same instruction.
struct Lanes {
  std::uint32_t at = 0;
  Mask mask = 0;
  bool waits = false;  // for the other lanes of an instruction that takes several
};

/// Bytes of shared memory that cp.async writes, by its lane and that lane's number of the group.
struct PendingCopy {
  int lane = 0;
  std::uint32_t group = 0;
  std::uint64_t address = 0;
  std::uint32_t nbytes = 0;
};

struct Warp {
  const Kernel* kernel = nullptr;
  Block* block = nullptr;
  std::uint32_t* registers = nullptr;
  std::uint32_t first_thread = 0;
  Mask live = 0;
  Mask carry = 0;  // of add.cc
  std::vector<Lanes> lanes;
  std::uint32_t syncs = 0;  // barriers of the warp and of the block that it has passed
  bool at_barrier = false;
  const Instruction* at = nullptr;  // for messages
  std::vector<std::byte> local;     // local_bytes of each lane
  std::vector<PendingCopy> copies;
  std::array<std::uint32_t, kLanes> copy_groups{};  // that each lane has committed

  bool done() const { return lanes.empty(); }
};

/// The register cell of a value: 32 or 64 bits.
template <class T>
using Cell = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
T from_cell(Cell<T> cell) {
  if constexpr (std::is_floating_point_v<T>)
    return std::bit_cast<T>(cell);
  else
    return static_cast<T>(cell);
}
template <class T>
Cell<T> to_cell(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::bit_cast<Cell<T>>(value);
  else if constexpr (sizeof(T) < 4)
    return static_cast<std::uint16_t>(value);  // a register has 16 bits or more
  else
    return static_cast<Cell<T>>(value);
}

/// The 32 cells of an operand.
template <class C>
const C* cells(const Warp& warp, Operand operand) {
  return reinterpret_cast<const C*>(operand >= 0 ? warp.registers + operand
                                                 : warp.kernel->constants.data() - operand - 1);
}
template <class C>
C* result(Warp& warp, Operand operand) {
  return reinterpret_cast<C*>(warp.registers + operand);
}
/// A predicate register: one bit per lane.
inline Mask predicate(const Warp& warp, Operand operand) {
  return *cells<std::uint32_t>(warp, operand);
}
inline void set_predicate(Warp& warp, Operand operand, Mask value, Mask lanes) {
  std::uint32_t& held = *result<std::uint32_t>(warp, operand);
  held = (held & ~lanes) | (value & lanes);
}

/// Calls body(lane) for each lane of the mask.
template <class Body>
inline void for_lanes(Mask mask, Body&& body) {
  if (mask == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) body(lane);
  } else {
    for (Mask left = mask; left != 0; left &= left - 1) body(std::countr_zero(left));
  }
}

/// Sets out[lane] to value(lane) for each lane of the mask; `out` may be one of value's operands.
/// The loops over all 32 lanes vectorise, and compute what lanes outside of the mask discard.
template <class C, class Value>
inline void put_lanes(C* out, Mask mask, Value&& value) {
  constexpr int kFew = 6;  // lanes, which are faster one by one
  if (std::popcount(mask) <= kFew) {
    for_lanes(mask, [&](int lane) { out[lane] = value(lane); });
    return;
  }
  C values[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) values[lane] = value(lane);
  if (mask == kAllLanes) {
    std::memcpy(out, values, sizeof(values));
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = mask >> lane & 1 ? values[lane] : out[lane];
}

}  // namespace ringlet::emulated
