// Loads, stores and atomics (PTX manual, 9.7.9 and 9.7.13).
#include "memory_operations.h"

#include <cstring>

#include "../gpu/access.h"
#include "../gpu/launch.h"
#include "integer.h"

namespace ringlet::emulated {
namespace {

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
    for_lanes(mask, [&](int lane) { acquire(warp, lane, accessed.address[lane]); });
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
    for_lanes(mask, [&](int lane) { release(warp, lane, accessed.address[lane]); });
}

template <class T, auto kFunction>
void run_atomic(Warp& warp, const Instruction& at, Mask mask) {
  const Cell<T>* const with = cells<Cell<T>>(warp, at.in[1]);
  const Accessed accessed = access_memory(warp, at, mask, true);
  for_lanes(mask, [&](int lane) {
    const T before = load<T>(accessed.data[lane]);
    const T now = kFunction(before, from_cell<T>(with[lane]));
    std::memcpy(accessed.data[lane], &now, sizeof(T));
    if (at.out[0] != kNone) result<Cell<T>>(warp, at.out[0])[lane] = to_cell<T>(before);
  });
}

template <class T>
T exchange(T, T b) {
  return b;
}

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
