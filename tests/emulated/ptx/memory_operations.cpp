// Loads, stores and atomics (PTX manual, 9.7.9 and 9.7.13). Each access is checked: bounds,
// alignment, peer access, uninitialised bytes and races.
#include "memory_operations.h"

#include <algorithm>
#include <cstring>

#include "../gpu/fault.h"
#include "../gpu/launch.h"
#include "../gpu/traffic.h"
#include "integer.h"

namespace ringlet::emulated {
namespace {

/// Host pointers to the accessed bytes and to their shadow.
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
    if (address + nbytes > range.end)
      fault(warp, lane,
            "an access of " + std::to_string(nbytes) + " bytes at " + hexadecimal(address) +
                ", which is in no block of memory");
    check_owner(warp, lane, *region);
    launch.region = region;
    launch.range = range;
  }
  const Region& region = *launch.region;
  return {region.view(address), region.shadow(address), region.written(address), &launch};
}

Place find_shared(Warp& warp, int lane, Address address, u32 nbytes) {
  static const OrderOfBlock order;
  Block& block = *warp.block;
  if (address + nbytes > block.shared.size())
    fault(warp, lane,
          "an access of " + std::to_string(nbytes) + " bytes at " + std::to_string(address) +
              " of " + std::to_string(block.shared.size()) + " bytes of shared memory");
  if (nbytes < 4 && block.shared_parts.empty())
    block.shared_parts.resize(4 * block.shared_shadow.size());
  const Shadow shadow{block.shared_shadow.data() + address / 4,
                      block.shared_parts.data() + address / 4 * 4};
  return {block.shared.data() + address, shadow, block.shared_written.data() + address / 8, &order};
}

std::string what_raced(const Stamp& stamp, const Actor& actor, bool writes) {
  return std::string("a race: ") + (writes ? "written" : "read") + " here, accessed by " +
         describe(stamp, actor) + ", and nothing orders the two";
}

void check_place(Warp& warp, const Instruction& at, int lane, const Place& place, Address address,
                 u32 nbytes, bool writes) {
  const Actor actor = actor_of(warp, lane);
  const AccessedBytes bytes{address, nbytes};
  if (at.access.is_constant && is_written_by(place.shadow, bytes, actor.operation))
    fault(warp, lane, "ld.nc of bytes that the same launch has written");
  if (const Stamp* raced =
          note_access(place.shadow, bytes, actor, writes, at.access.scope, *place.order))
    fault(warp, lane, what_raced(*raced, actor, writes));
  if (writes) {
    mark_written(place.written, address, nbytes);
  } else if (!is_written(place.written, address, nbytes)) {
    fault(warp, lane, "a read of bytes that nothing has written");
  }
}

std::byte* find(Warp& warp, const Instruction& at, int lane, Address address, u32 nbytes,
                bool writes) {
  if (address % nbytes != 0)
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
  const bool shared = at.access.space == Space::shared;
  const Place place =
      shared ? find_shared(warp, lane, address, nbytes) : find_global(warp, lane, address, nbytes);
  check_place(warp, at, lane, place, address, nbytes, writes);
  return place.data;
}

Address address_of(const Warp& warp, const Instruction& at, int lane) {
  const auto i = static_cast<std::size_t>(lane);
  if (at.in[0] == kNone) return static_cast<Address>(at.offset);
  if (!at.access.wide_address)  // sums of 32-bit addresses wrap
    return cells<u32>(warp, at.in[0])[i] + static_cast<u32>(at.offset);
  return cells<u64>(warp, at.in[0])[i] + static_cast<u64>(at.offset);
}

void count_traffic(const Warp& warp, const Instruction& at, Addresses& addresses, u32 nbytes,
                   bool writes) {
  Launch& launch = *warp.block->launch;
  if (!launch.has_traffic) return;
  Count& count = launch.counts[static_cast<std::size_t>(&at - launch.kernel.code.data())];
  addresses.count(count, at.access.space, nbytes, launch.order.operation, writes);
}

u64 extended(u64 value, const Access& access) {
  if (!access.sign_extends || access.bytes == 8) return value;
  const int unused = 64 - 8 * access.bytes;
  return static_cast<u64>(static_cast<std::int64_t>(value << unused) >> unused);
}

// Operations that happened before the launch are ordered anyway: clocks do not grow with each
// launch.
void acquire(Warp& warp, int lane, Address address) {
  const auto found = released().find(address);
  if (found == released().end()) return;
  const LaunchOrder& order = warp.block->launch->order;
  warp.block->fresh[thread_of(warp, lane)].join_unordered(
      found->second, [&](OperationId operation) {
        return operation != order.operation && operation_order().is_before(operation, order.clock);
      });
}

void release(Warp& warp, int lane, Address address) {
  const Block& block = *warp.block;
  const u32 thread = thread_of(warp, lane);
  BlockClock clock = block.seen;
  if (const auto fresh = block.fresh.find(thread); fresh != block.fresh.end())
    clock.join(fresh->second);
  clock.see({block.launch->order.operation, block.index},
            {block.barriers, static_cast<std::int32_t>(thread)});
  released()[address] = std::move(clock);
}

// Whether body(byte, mask) is true for all bytes that hold a bit of the accessed bytes.
template <class Byte, class Body>
bool all_bytes_of_bits(Byte* byte, Address address, std::size_t nbytes, const Body& body) {
  std::size_t first = address % 8;
  for (; first + nbytes > 8; ++byte, first = 0) {
    if (!body(*byte, 0xffu << first & 0xff)) return false;
    nbytes -= 8 - first;
  }
  return body(*byte, ((1u << nbytes) - 1) << first);
}

// Calls body(lane, address, data) for each lane and counts the traffic.
template <class Body>
void access_lanes(Warp& warp, const Instruction& at, Mask mask, bool writes, const Body& body) {
  const u32 nbytes = u32{at.access.bytes} * at.access.elements;
  Addresses addresses;
  for_lanes(mask, [&](int lane) {
    const Address address = address_of(warp, at, lane);
    addresses.add(address);
    body(lane, address, find(warp, at, lane, address, nbytes, writes));
  });
  count_traffic(warp, at, addresses, nbytes, writes);
}

template <class T, auto kFunction>
void run_atomic(Warp& warp, const Instruction& at, Mask mask) {
  const Cell<T>* const with = cells<Cell<T>>(warp, at.in[1]);
  Addresses addresses;
  for_lanes(mask, [&](int lane) {
    const Address address = address_of(warp, at, lane);
    addresses.add(address);
    std::byte* const data = find(warp, at, lane, address, sizeof(T), true);
    T before;
    std::memcpy(&before, data, sizeof(T));
    const T now = kFunction(before, from_cell<T>(with[lane]));
    std::memcpy(data, &now, sizeof(T));
    if (at.out[0] != kNone) result<Cell<T>>(warp, at.out[0])[lane] = to_cell<T>(before);
  });
  count_traffic(warp, at, addresses, sizeof(T), true);
}

template <class T>
T exchange(T, T b) {
  return b;
}

}  // namespace

bool is_written(const std::uint8_t* bits, Address address, std::size_t nbytes) {
  return all_bytes_of_bits(bits, address, nbytes, [](const std::uint8_t& byte, unsigned mask) {
    return (byte & mask) == mask;
  });
}

void mark_written(std::uint8_t* bits, Address address, std::size_t nbytes) {
  all_bytes_of_bits(bits, address, nbytes, [](std::uint8_t& byte, unsigned mask) {
    byte = static_cast<std::uint8_t>(byte | mask);
    return true;
  });
}

void run_load(Warp& warp, const Instruction& at, Mask mask) {
  const Access& access = at.access;
  access_lanes(warp, at, mask, false, [&](int lane, Address address, const std::byte* data) {
    for (std::size_t k = 0; k < access.elements; ++k) {
      u64 value = 0;
      std::memcpy(&value, data + k * access.bytes, access.bytes);
      value = extended(value, access);
      if (at.out[k] == kNone) continue;
      if (at.out_bytes[k] == 8)
        result<u64>(warp, at.out[k])[lane] = value;
      else
        result<u32>(warp, at.out[k])[lane] = static_cast<u32>(value);
    }
    if (access.acquires) acquire(warp, lane, address);
  });
}

void run_store(Warp& warp, const Instruction& at, Mask mask) {
  const Access& access = at.access;
  access_lanes(warp, at, mask, true, [&](int lane, Address address, std::byte* data) {
    for (std::size_t k = 0; k < access.elements; ++k) {
      const u64 value = at.in_bytes[k + 1] == 8 ? cells<u64>(warp, at.in[k + 1])[lane]
                                                : u64{cells<u32>(warp, at.in[k + 1])[lane]};
      std::memcpy(data + k * access.bytes, &value, access.bytes);
    }
    if (access.releases) release(warp, lane, address);
  });
}

Instruction::Run atomic(const std::string& operation, const std::string& type) {
  if (type == "u32" || type == "b32" || (type == "s32" && operation == "add")) {
    if (operation == "add") return &run_atomic<u32, sum_of<u32>>;
    if (operation == "min") return &run_atomic<u32, lesser_integer<u32>>;
    if (operation == "max") return &run_atomic<u32, greater_integer<u32>>;
    if (operation == "exch") return &run_atomic<u32, exchange<u32>>;
  }
  if (type == "u64" && operation == "add") return &run_atomic<u64, sum_of<u64>>;
  if (type == "f32" && operation == "add") return &run_atomic<float, sum_of<float>>;
  return nullptr;
}

}  // namespace ringlet::emulated
