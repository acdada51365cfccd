#include "copy_operations.h"

#include "../gpu/access.h"
#include "../gpu/fault.h"

namespace ringlet::emulated {
namespace {

u16 element(const Accessed& rows, std::size_t row, std::size_t column) {
  u16 value;
  std::memcpy(&value, rows.data[row] + 2 * column, sizeof(value));
  return value;
}

/// The bytes that a lane's copy reads.
u32 bytes_read(const Warp& warp, const Instruction& at, int lane, u32 nbytes) {
  if (at.in[2] == kNone) return nbytes;
  if (at.flag) return (predicate(warp, at.in[2]) >> lane & 1) != 0 ? 0 : nbytes;
  const u32 read = cells<u32>(warp, at.in[2])[lane];
  if (read > nbytes) fault(warp, lane, "a copy that reads more bytes than it writes");
  return read;
}

}  // namespace

template <bool kTransposed>
void run_ldmatrix(Warp& warp, const Instruction& at, Mask) {
  const std::size_t matrices = at.variant;
  const Mask rows = kAllLanes >> (kLanes - 8 * matrices);
  const Accessed accessed = access_memory(warp, at, rows, false);
  for (std::size_t i = 0; i < matrices; ++i) {
    if (at.out[i] == kNone) continue;
    u32* const out = result<u32>(warp, at.out[i]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t r = lane / 4, c = lane % 4 * 2;
      const auto at_row = [&](std::size_t k) {
        return u32{kTransposed ? element(accessed, 8 * i + c + k, r)
                               : element(accessed, 8 * i + r, c + k)};
      };
      out[lane] = at_row(0) | at_row(1) << 16;
    }
  }
}
template void run_ldmatrix<false>(Warp&, const Instruction&, Mask);
template void run_ldmatrix<true>(Warp&, const Instruction&, Mask);

// The bytes arrive at once. No program can see that: each access before the wait is a fault.
void run_copy(Warp& warp, const Instruction& at, Mask mask) {
  const u32 nbytes = u32{at.access.bytes} * at.access.elements;
  Instruction source = at;
  source.access.space = Space::global, source.access.wide_address = true;
  source.in[0] = at.in[1], source.offset = at.source_offset;
  std::array<u32, kLanes> read{};
  Mask whole = 0;
  for_lanes(mask, [&](int lane) {
    const auto i = static_cast<std::size_t>(lane);
    read[i] = bytes_read(warp, at, lane, nbytes);
    if (read[i] == nbytes) whole |= Mask{1} << lane;
  });
  Accessed from;
  if (whole) from = access_memory(warp, source, whole, false);
  const Accessed to = access_memory(warp, at, mask, true);
  for_lanes(mask, [&](int lane) {
    const auto i = static_cast<std::size_t>(lane);
    std::memset(to.data[i], 0, nbytes);
    if (read[i] == nbytes) std::memcpy(to.data[i], from.data[i], nbytes);
    Instruction part = source;
    part.access.bytes = 1, part.access.elements = 1;
    for (u32 k = 0; k < read[i] % nbytes; ++k, ++part.offset)
      to.data[i][k] = *access_memory(warp, part, Mask{1} << lane, false).data[i];
    mark_pending(warp, {lane, warp.copy_groups[i], to.address[i], nbytes});
  });
}

void run_commit_copies(Warp& warp, const Instruction&, Mask mask) {
  for_lanes(mask, [&](int lane) { ++warp.copy_groups[static_cast<std::size_t>(lane)]; });
}

void run_wait_for_copies(Warp& warp, const Instruction& at, Mask mask) {
  if (at.flag) run_commit_copies(warp, at, mask);
  for_lanes(mask, [&](int lane) {
    const u32 groups = warp.copy_groups[static_cast<std::size_t>(lane)];
    const u32 left = at.flag ? 0 : cells<u32>(warp, at.in[0])[lane];
    if (left < groups) complete_copies(warp, lane, groups - left);
  });
}

}  // namespace ringlet::emulated
