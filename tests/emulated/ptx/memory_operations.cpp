// Loads, stores and atomics (PTX manual, 9.7.9 and 9.7.13).
#include "memory_operations.h"

#include <algorithm>
#include <cstring>

#include "../gpu/access.h"
#include "../gpu/launch.h"

namespace ringlet::emulated {
namespace {

// Operations that happened before the launch are ordered anyway: clocks do not grow with each
// launch.
void acquire(Warp& warp, int lane, Address address, Scope scope) {
  const auto found = released().find(address);
  if (found == released().end()) return;
  const Published& published = found->second;
  if (std::min(scope, published.scope) <
      scope_between(published.operation, published.block, actor_of(warp, lane)))
    return;
  const LaunchOrder& order = warp.block->launch->order;
  warp.block->fresh[thread_of(warp, lane)].join_unordered(
      published.clock, [&](OperationId operation) {
        return operation != order.operation && operation_order().is_before(operation, order.clock);
      });
}

void release(Warp& warp, int lane, Address address, Scope scope) {
  const Block& block = *warp.block;
  const u32 thread = thread_of(warp, lane);
  BlockClock clock = block.seen;
  if (const auto fresh = block.fresh.find(thread); fresh != block.fresh.end())
    clock.join(fresh->second);
  clock.see({block.launch->order.operation, block.index},
            {block.barriers, static_cast<std::int32_t>(thread)});
  released()[address] = {std::move(clock), scope, block.launch->order.operation, block.index};
}

template <class T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

/// Element: as in memory; its signedness is that of the load.
template <class Element>
void run_load_of(Warp& warp, const Instruction& at, Mask mask) {
  const Accessed accessed = access_memory(warp, at, mask, false);
  for (std::size_t k = 0; k < at.access.elements; ++k) {
    if (at.out[k] == kNone) continue;
    const auto set = [&](auto* out) {
      for_lanes(mask, [&](int lane) {
        using Out = std::remove_pointer_t<decltype(out)>;
        out[lane] = static_cast<Out>(load<Element>(accessed.data[lane] + k * sizeof(Element)));
      });
    };
    if (at.out_bytes[k] == 8)
      set(result<u64>(warp, at.out[k]));
    else
      set(result<u32>(warp, at.out[k]));
  }
  if (at.access.acquires)
    for_lanes(mask,
              [&](int lane) { acquire(warp, lane, accessed.address[lane], at.access.scope); });
}

template <class Element>
void run_store_of(Warp& warp, const Instruction& at, Mask mask) {
  const Accessed accessed = access_memory(warp, at, mask, true);
  for (std::size_t k = 0; k < at.access.elements; ++k) {
    const auto put = [&](const auto* in) {
      for_lanes(mask, [&](int lane) {
        const auto value = static_cast<Element>(in[lane]);
        std::memcpy(accessed.data[lane] + k * sizeof(Element), &value, sizeof(Element));
      });
    };
    if (at.in_bytes[k + 1] == 8)
      put(cells<u64>(warp, at.in[k + 1]));
    else
      put(cells<u32>(warp, at.in[k + 1]));
  }
  if (at.access.releases)
    for_lanes(mask,
              [&](int lane) { release(warp, lane, accessed.address[lane], at.access.scope); });
}

template <u32 kFunction(u32, u32)>
void run_atomic(Warp& warp, const Instruction& at, Mask mask) {
  const u32* const with = cells<u32>(warp, at.in[1]);
  const Accessed accessed = access_memory(warp, at, mask, true);
  for_lanes(mask, [&](int lane) {
    const u32 before = load<u32>(accessed.data[lane]);
    const u32 now = kFunction(before, with[lane]);
    std::memcpy(accessed.data[lane], &now, sizeof(now));
    if (at.out[0] != kNone) result<u32>(warp, at.out[0])[lane] = before;
  });
}

u32 sum(u32 a, u32 b) { return a + b; }
u32 exchange(u32, u32 b) { return b; }

}  // namespace

Instruction::Run load_of(const Access& access) {
  switch (access.bytes) {
    case 1:
      return access.sign_extends ? &run_load_of<std::int8_t> : &run_load_of<std::uint8_t>;
    case 2:
      return access.sign_extends ? &run_load_of<i16> : &run_load_of<u16>;
    case 4:
      return access.sign_extends ? &run_load_of<i32> : &run_load_of<u32>;
    default:
      return &run_load_of<u64>;
  }
}

Instruction::Run store_of(const Access& access) {
  switch (access.bytes) {
    case 1:
      return &run_store_of<std::uint8_t>;
    case 2:
      return &run_store_of<u16>;
    case 4:
      return &run_store_of<u32>;
    default:
      return &run_store_of<u64>;
  }
}

Instruction::Run atomic(const std::string& operation, const std::string& type) {
  if (operation == "add" && type == "u32") return &run_atomic<sum>;
  if (operation == "exch" && type == "b32") return &run_atomic<exchange>;
  return nullptr;
}

}  // namespace ringlet::emulated
