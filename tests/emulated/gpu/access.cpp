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

Place find_global(Warp& warp, int lane, Address address, u32 nbytes) {
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

Place find_shared(Warp& warp, const Access& access, Address address, u32 nbytes) {
  static const OrderOfBlock order;
  Block& block = *warp.block;
  if (address + nbytes > block.shared.size()) return {};
  if (u32{access.bytes} * access.elements < 4 && block.shared_parts.empty())
    block.shared_parts.resize(4 * block.shared_shadow.size());
  const Shadow shadow{block.shared_shadow.data() + address / 4,
                      block.shared_parts.data() + address / 4 * 4};
  return {block.shared.data() + address, shadow, block.shared_written.data() + address / 8, &order};
}

Place find(Warp& warp, const Instruction& at, int lane, Address address, u32 nbytes) {
  return at.access.space == Space::shared ? find_shared(warp, at.access, address, nbytes)
                                          : find_global(warp, lane, address, nbytes);
}

[[noreturn]] void fault_at(const Warp& warp, const Instruction& at, int lane, Address address,
                           u32 nbytes) {
  const std::string access = "an access of " + std::to_string(nbytes) + " bytes at ";
  if (at.access.space != Space::shared)
    fault(warp, lane, access + hexadecimal(address) + ", which is in no block of memory");
  fault(warp, lane,
        access + std::to_string(address) + " of " + std::to_string(warp.block->shared.size()) +
            " bytes of shared memory");
}

/// Records the access of one lane.
void note(Warp& warp, const Instruction& at, const Place& place, const AccessedBytes& bytes,
          const Actor& actor, bool writes) {
  const Stamp* const raced =
      note_access(place.shadow, bytes, actor, writes, at.access.scope, *place.order);
  if (raced)
    fault(warp, static_cast<int>(actor.thread % kLanes),
          std::string("a race: ") + (writes ? "written" : "read") + " here, accessed by " +
              describe(*raced, actor) + ", and nothing orders the two");
}

/// False for ld.nc of bytes that the same launch has written.
bool is_constant(const Instruction& at, const Place& place, const AccessedBytes& bytes,
                 OperationId operation) {
  return !at.access.is_constant || !is_written_by(place.shadow, bytes, operation);
}

std::byte* access_checked(Warp& warp, const Instruction& at, int lane, Address address, u32 nbytes,
                          bool writes) {
  const Place place = find(warp, at, lane, address, nbytes);
  if (!place.data) fault_at(warp, at, lane, address, nbytes);
  const Actor actor = actor_of(warp, lane);
  const AccessedBytes bytes{address, nbytes};
  if (!is_constant(at, place, bytes, actor.operation))
    fault(warp, lane, "ld.nc of bytes that the same launch has written");
  note(warp, at, place, bytes, actor, writes);
  if (writes)
    mark_written(place.written, address, nbytes);
  else if (!is_written(place.written, address, nbytes))
    fault(warp, lane, "a read of bytes that nothing has written");
  return place.data;
}

std::byte* access_lane(Warp& warp, const Instruction& at, int lane, Address address, u32 nbytes,
                       bool writes) {
  if (address & (nbytes - 1))
    fault(warp, lane,
          "an access of " + std::to_string(nbytes) + " bytes at " + hexadecimal(address) +
              ", which is not aligned");
  if (at.access.space == Space::local) {
    const std::size_t room = warp.kernel->local_bytes;
    if (address + nbytes > room) fault(warp, lane, "an access beyond local memory");
    return warp.local.data() + room * static_cast<std::size_t>(lane) + address;
  }
  if (at.access.space == Space::parameter) {
    auto& parameters = warp.block->launch->parameters;
    if (address + nbytes > parameters.size()) fault(warp, lane, "a read beyond the parameters");
    return parameters.data() + address;
  }
  return access_checked(warp, at, lane, address, nbytes, writes);
}

/// The distance of the addresses of neighbouring lanes, if the active lanes are neighbours and it
/// is the same for all; otherwise -1.
std::int64_t stride_of(const Accessed& accessed, Mask mask) {
  const int first = std::countr_zero(mask), lanes = std::popcount(mask);
  const Mask lowest = mask >> first;
  if ((lowest & (lowest + 1)) != 0 || lanes < 2) return -1;
  const Address* const address = &accessed.address[static_cast<std::size_t>(first)];
  const Address stride = address[1] - address[0];
  Address differences = 0;
  for (int i = 2; i < lanes; ++i) differences |= (address[i] - address[i - 1]) ^ stride;
  return differences == 0 ? static_cast<std::int64_t>(stride) : -1;
}

/// Accesses of neighbouring lanes to neighbouring bytes, or reads of the same bytes, with one check
/// of bounds. False if they are others, or if one lane's access fails.
bool access_together(Warp& warp, const Instruction& at, Mask mask, u32 nbytes, bool writes,
                     Accessed& accessed) {
  if (at.access.space == Space::local || at.access.space == Space::parameter) return false;
  const std::int64_t stride = stride_of(accessed, mask);
  if (stride != nbytes && (stride != 0 || writes)) return false;
  const int first = std::countr_zero(mask), last = 31 - std::countl_zero(mask);
  const auto steps = static_cast<std::uint64_t>(last - first);
  const Address begin = accessed.address[static_cast<std::size_t>(first)];
  const AccessedBytes bytes{begin, nbytes + steps * static_cast<std::uint64_t>(stride)};
  const Place place = find(warp, at, first, begin, static_cast<u32>(bytes.nbytes));
  Actor actor = actor_of(warp, first);
  if ((begin & (nbytes - 1)) != 0 || !place.data) return false;
  if (!is_constant(at, place, bytes, actor.operation)) return false;
  if (!writes && !is_written(place.written, begin, bytes.nbytes)) return false;
  // The shadow keeps one reader, or that there are several.
  const int step = stride == 0 ? last - first : 1;
  for (int lane = first; lane <= last; lane += step) {
    const std::uint64_t offset = static_cast<std::uint64_t>(lane - first) * stride;
    const std::uint64_t granule = (begin % 4 + offset) / 4;
    Place part = place;
    part.shadow.whole += granule, part.shadow.parts += 4 * granule;
    note(warp, at, part, {begin + offset, nbytes}, actor, writes);
    actor.thread = static_cast<std::uint16_t>(actor.thread + step);
  }
  if (writes) mark_written(place.written, begin, bytes.nbytes);
  for (int lane = first; lane <= last; ++lane)
    accessed.data[static_cast<std::size_t>(lane)] = place.data + (lane - first) * stride;
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
  Count& count = launch.counts[static_cast<std::size_t>(&at - launch.kernel.code.data())];
  addresses.count(count, at.access.space, nbytes, launch.order.operation, writes);
}

}  // namespace

Accessed access_memory(Warp& warp, const Instruction& at, Mask mask, bool writes) {
  const u32 nbytes = u32{at.access.bytes} * at.access.elements;
  Accessed accessed;
  set_addresses(warp, at, accessed);
  if (!access_together(warp, at, mask, nbytes, writes, accessed))
    for_lanes(mask, [&](int lane) {
      const auto i = static_cast<std::size_t>(lane);
      accessed.data[i] = access_lane(warp, at, lane, accessed.address[i], nbytes, writes);
    });
  count_traffic(warp, at, accessed, mask, nbytes, writes);
  return accessed;
}

}  // namespace ringlet::emulated
