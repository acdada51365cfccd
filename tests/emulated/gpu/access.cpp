#include "access.h"

#include <algorithm>
#include <cstdio>

#include "fault.h"
#include "launch.h"
#include "traffic.h"
#include "written.h"

namespace ringlet::emulated {
namespace {

/// Accessed bytes in host memory with their shadow; `data` is null for bytes out of bounds.
struct Place {
  std::byte* data = nullptr;
  Shadow shadow{};
  std::uint8_t* written = nullptr;  // a bit a byte, of the eight that it begins in
  const Order* order = nullptr;
};

std::string hexadecimal(u64 value) {
  std::string text(19, '\0');
  text.resize(static_cast<std::size_t>(
      std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value))));
  return text;
}

void check_owner(const Warp& warp, int lane, const Region& region) {
  const int device = warp.block->launch->shape.device, owner = region.owner();
  if (owner == kHost || owner == device || Memory::instance().has_peer(device, owner)) return;
  fault(warp, lane,
        "an access to memory of cuda:" + std::to_string(owner) +
            " from cuda:" + std::to_string(device) + " without peer access");
}

Place find_global(Warp& warp, int lane, Address address, u64 nbytes) {
  Launch& launch = *warp.block->launch;
  if (address < launch.range.begin || address + nbytes > launch.range.end) {
    Region* const region = Memory::instance().region(address);
    const Region::Range range = region ? region->find(address) : Region::Range{};
    if (address + nbytes > range.end) return {};
    check_owner(warp, lane, *region);
    launch.region = region;
    launch.range = range;
  }
  const Region& region = *launch.region;
  return {region.view(address), region.shadow(address), region.written(address), &launch};
}

Place find_shared(Warp& warp, const Access& access, Address address, u64 nbytes) {
  static const OrderOfBlock order;
  Block& block = *warp.block;
  if (address + nbytes > block.shared.size()) return {};
  if (u32{access.bytes} * access.elements < 4 && block.shared_parts.empty())
    block.shared_parts.resize(4 * block.shared_shadow.size());
  const Shadow shadow{block.shared_shadow.data() + address / 4,
                      block.shared_parts.data() + address / 4 * 4};
  return {block.shared.data() + address, shadow, block.shared_written.data() + address / 8, &order};
}

Place find(Warp& warp, const Instruction& at, int lane, Address address, u64 nbytes) {
  return at.access.space == Space::shared ? find_shared(warp, at.access, address, nbytes)
                                          : find_global(warp, lane, address, nbytes);
}

/// Explains why access_together() refuses the access of this lane.
[[noreturn]] void fault_at(Warp& warp, const Instruction& at, int lane, Address address,
                           u32 nbytes) {
  const std::string access = "an access of " + std::to_string(nbytes) + " bytes at ";
  if ((address & (nbytes - 1)) != 0)
    fault(warp, lane, access + hexadecimal(address) + ", which is not aligned");
  if (find(warp, at, lane, address, nbytes).data)
    fault(warp, lane, "a read of bytes that nothing has written");
  if (at.access.space != Space::shared)
    fault(warp, lane, access + hexadecimal(address) + ", which is in no block of memory");
  fault(warp, lane,
        access + std::to_string(address) + " of " + std::to_string(warp.block->shared.size()) +
            " bytes of shared memory");
}

/// Records the access of one lane that note_ordered() leaves open.
void note_open(Warp& warp, const Instruction& at, const Place& place, const AccessedBytes& bytes,
               const Actor& actor, bool writes) {
  const int lane = static_cast<int>(actor.thread % kLanes);
  if (at.access.is_constant && is_written_by(place.shadow, bytes, actor.operation))
    fault(warp, lane, "ld.nc of bytes that the same launch has written");
  const Stamp* const raced =
      note_access(place.shadow, bytes, actor, writes, at.access.scope, *place.order);
  if (raced && raced->readers == Readers::pending)
    fault(warp, lane,
          std::string(writes ? "a write" : "a read") + " of bytes that a copy of " +
              describe(*raced, actor) + " writes, which has not waited for it");
  if (raced)
    fault(warp, lane,
          std::string("a race: ") + (writes ? "written" : "read") + " here, accessed by " +
              describe(*raced, actor) + ", and nothing orders the two");
}

/// Records the accesses of the lanes. `place`: of the address `from`.
void note_lanes(Warp& warp, const Instruction& at, Mask mask, const Place& place, Address from,
                u32 nbytes, bool writes, const Accessed& accessed) {
  Actor actor = actor_of(warp, 0);
  const std::uint16_t first_thread = actor.thread;
  const auto note = [&](int lane, int reader) {
    const Address address = accessed.address[static_cast<std::size_t>(lane)];
    const Address granule = address / 4 - from / 4;
    actor.thread = static_cast<std::uint16_t>(first_thread + reader);
    Granule* const whole = place.shadow.whole + granule;
    bool noted = nbytes % 4 == 0;
    for (u32 i = 0; noted && i < nbytes / 4; ++i)
      noted = !(at.access.is_constant && whole[i].written.operation == actor.operation) &&
              note_ordered(whole[i], actor, writes, at.access.scope, *place.order);
    if (noted) return;
    Place open = place;
    open.shadow = {whole, place.shadow.parts + 4 * granule};
    note_open(warp, at, open, {address, nbytes}, actor, writes);
  };
  for_lanes(mask, [&](int lane) {
    note(lane, lane);
    if (at.access.of_warp) note(lane, lane ^ 1);  // at least one is not the writer
  });
}

/// A lane's bytes of its local memory, or of the launch's parameters.
std::byte* find_private(Warp& warp, const Instruction& at, int lane, Address address, u32 nbytes) {
  if ((address & (nbytes - 1)) != 0) fault_at(warp, at, lane, address, nbytes);
  if (at.access.space == Space::local) {
    const std::size_t room = warp.kernel->local_bytes;
    if (address + nbytes > room) fault(warp, lane, "an access beyond local memory");
    return warp.local.data() + room * static_cast<std::size_t>(lane) + address;
  }
  auto& parameters = warp.block->launch->parameters;
  if (address + nbytes > parameters.size()) fault(warp, lane, "a read beyond the parameters");
  return parameters.data() + address;
}

/// The bytes from the lowest to the highest address of the active lanes.
AccessedBytes span_of(const Accessed& accessed, Mask mask, u32 nbytes) {
  Address lowest = ~Address{0}, highest = 0;
  for_lanes(mask, [&](int lane) {
    lowest = std::min(lowest, accessed.address[static_cast<std::size_t>(lane)]);
    highest = std::max(highest, accessed.address[static_cast<std::size_t>(lane)]);
  });
  return {lowest, highest - lowest + nbytes};
}

bool are_aligned(const Accessed& accessed, Mask mask, u32 nbytes) {
  Address bits = 0;
  for_lanes(mask, [&](int lane) { bits |= accessed.address[static_cast<std::size_t>(lane)]; });
  return (bits & (nbytes - 1)) == 0;
}

/// Accesses of the lanes to one block of memory, with one check of its bounds. False, and nothing
/// is recorded, if a lane's bytes are misaligned, in another block, or read and never written.
bool access_together(Warp& warp, const Instruction& at, Mask mask, u32 nbytes, bool writes,
                     Accessed& accessed) {
  if (!are_aligned(accessed, mask, nbytes)) return false;
  const AccessedBytes span = span_of(accessed, mask, nbytes);
  const int first = std::countr_zero(mask), last = 31 - std::countl_zero(mask);
  const Place place = find(warp, at, first, span.address, span.nbytes);
  if (!place.data) return false;
  const auto bits_of = [&](Address address) {
    return place.written + (address / 8 - span.address / 8);
  };
  const bool is_short = span.nbytes <= kLanes * nbytes;
  if (!writes && !(is_short && is_written(place.written, span.address, span.nbytes))) {
    bool written = true;
    for_lanes(mask, [&](int lane) {
      const Address address = accessed.address[static_cast<std::size_t>(lane)];
      written = written && is_written(bits_of(address), address, nbytes);
    });
    if (!written) return false;
  }
  // The shadow keeps one reader of bytes, or that there are several.
  const bool same = !writes && span.nbytes == nbytes;
  const Mask noted = same ? Mask{1} << first | Mask{1} << last : mask;
  note_lanes(warp, at, noted, place, span.address, nbytes, writes, accessed);
  for_lanes(mask, [&](int lane) {
    const auto i = static_cast<std::size_t>(lane);
    const Address address = accessed.address[i];
    if (writes) mark_written(bits_of(address), address, nbytes);
    accessed.data[i] = place.data + (address - span.address);
  });
  return true;
}

void set_addresses(const Warp& warp, const Instruction& at, Accessed& accessed) {
  auto& address = accessed.address;
  if (at.in[0] == kNone) {
    address.fill(static_cast<Address>(at.offset));
  } else if (at.access.wide_address) {
    const u64* const base = cells<u64>(warp, at.in[0]);
    for (std::size_t i = 0; i < kLanes; ++i) address[i] = base[i] + static_cast<u64>(at.offset);
  } else {  // sums of 32-bit addresses wrap
    const u32* const base = cells<u32>(warp, at.in[0]);
    for (std::size_t i = 0; i < kLanes; ++i) address[i] = base[i] + static_cast<u32>(at.offset);
  }
}

void count_traffic(const Warp& warp, const Instruction& at, const Accessed& accessed, Mask mask,
                   u32 nbytes, bool writes) {
  Launch& launch = *warp.block->launch;
  if (!launch.has_traffic) return;
  Addresses addresses;
  for_lanes(mask,
            [&](int lane) { addresses.add(accessed.address[static_cast<std::size_t>(lane)]); });
  Count& count = launch.counts[static_cast<std::size_t>(warp.at - launch.kernel.code.data())];
  addresses.count(count, at.access.space, nbytes, launch.order.operation, writes);
}

}  // namespace

void mark_pending(Warp& warp, const PendingCopy& copy) {
  Granule* const whole = warp.block->shared_shadow.data() + copy.address / 4;
  for (u32 i = 0; i < copy.nbytes / 4; ++i) whole[i].written.readers = Readers::pending;
  warp.copies.push_back(copy);
}

void complete_copies(Warp& warp, int lane, u32 groups) {
  const Actor actor = actor_of(warp, lane);
  std::erase_if(warp.copies, [&](const PendingCopy& copy) {
    if (copy.lane != lane || copy.group >= groups) return false;
    Granule* const whole = warp.block->shared_shadow.data() + copy.address / 4;
    for (u32 i = 0; i < copy.nbytes / 4; ++i) whole[i].keep(actor, true, Scope::weak);
    return true;
  });
}

Accessed access_memory(Warp& warp, const Instruction& at, Mask mask, bool writes) {
  const u32 nbytes = u32{at.access.bytes} * at.access.elements;
  const bool is_private = at.access.space == Space::local || at.access.space == Space::parameter;
  Accessed accessed;
  set_addresses(warp, at, accessed);
  if (at.access.space == Space::parameter && at.in[0] == kNone)  // one address for all lanes
    accessed.data.fill(find_private(warp, at, std::countr_zero(mask), accessed.address[0], nbytes));
  else if (is_private || !access_together(warp, at, mask, nbytes, writes, accessed))
    for_lanes(mask, [&](int lane) {
      const auto i = static_cast<std::size_t>(lane);
      const Address address = accessed.address[i];
      if (is_private)
        accessed.data[i] = find_private(warp, at, lane, address, nbytes);
      else if (!access_together(warp, at, Mask{1} << lane, nbytes, writes, accessed))
        fault_at(warp, at, lane, address, nbytes);
    });
  count_traffic(warp, at, accessed, mask, nbytes, writes);
  return accessed;
}

}  // namespace ringlet::emulated
