// Shadow memory for race detection: the last read and write of every four bytes.
#pragma once

#include <cstdint>
#include <string>

#include "../ptx/program.h"
#include "clock.h"

namespace ringlet::emulated {

/// A thread at a position in its program.
struct Actor {
  OperationId operation = 0;
  std::uint32_t block = 0;
  std::uint32_t barriers = 0;  // of the block, passed
  std::uint16_t thread = 0;
  std::uint8_t syncs = 0;  // of the warp; they wrap
};

/// The unordered readers that one stamp represents.
enum class Readers : std::uint8_t { one, of_warp, of_block, of_grid };

/// The last read or write. Accesses to different bytes of the four replace each other: a race on
/// single bytes can be missed, but none is reported falsely.
struct Stamp {
  OperationId operation = 0;
  std::uint32_t block = 0;
  std::uint32_t barriers = 0;
  std::uint16_t thread = 0;
  std::uint8_t syncs = 0;
  std::uint8_t bytes : 4 = 0;  // a bit each
  Scope scope : 2 = Scope::weak;
  Readers readers : 2 = Readers::one;
};

/// The shadow of four bytes.
struct Granule {
  Stamp written, read;
};
static_assert(sizeof(Granule) == 32);

/// Orders accesses of different blocks or operations.
class Order {
 public:
  virtual bool is_before(const Stamp& earlier, const Actor& now) const = 0;

 protected:
  ~Order() = default;
};

inline bool is_before(const Stamp& stamp, const Actor& actor, const Order& order) {
  if (stamp.operation == 0) return true;
  const bool same_block = stamp.operation == actor.operation && stamp.block == actor.block;
  if (!same_block || stamp.readers == Readers::of_grid) return order.is_before(stamp, actor);
  if (stamp.barriers != actor.barriers) return true;
  if (stamp.readers == Readers::of_block) return false;
  if (stamp.thread / kLanes != actor.thread / kLanes) return false;
  if (stamp.syncs != actor.syncs) return true;
  return stamp.readers == Readers::one && stamp.thread == actor.thread;
}

/// Whether the access conflicts with the stamp. Two strong accesses never do.
inline bool races(const Stamp& stamp, const Actor& actor, std::uint8_t bytes, Scope scope,
                  const Order& order) {
  if ((stamp.bytes & bytes) == 0) return false;
  if (stamp.scope != Scope::weak && scope != Scope::weak) return false;
  return !is_before(stamp, actor, order);
}

inline Readers with_reader(const Stamp& read, const Actor& actor) {
  if (read.operation != actor.operation) return Readers::one;
  if (read.block != actor.block || read.readers == Readers::of_grid) return Readers::of_grid;
  const bool same_warp = read.thread / kLanes == actor.thread / kLanes;
  return same_warp && read.readers != Readers::of_block ? Readers::of_warp : Readers::of_block;
}

/// Records an access to some of the four bytes. Returns the conflicting stamp or null; it is valid
/// until the next call in this thread.
inline const Stamp* note_access(Granule& granule, const Actor& actor, std::uint8_t bytes,
                                bool writes, Scope scope, const Order& order) {
  thread_local Stamp raced;
  const Stamp* found = nullptr;
  const auto look = [&](const Stamp& stamp) {
    if (found || !races(stamp, actor, bytes, scope, order)) return;
    raced = stamp;
    found = &raced;
  };
  look(granule.written);
  if (writes) look(granule.read);
  Stamp& held = writes ? granule.written : granule.read;
  const bool beside = !writes && (held.bytes & bytes) != 0 && !is_before(held, actor, order);
  const Readers readers = beside ? with_reader(held, actor) : Readers::one;
  held.operation = actor.operation;
  held.block = actor.block;
  held.barriers = actor.barriers;
  held.thread = actor.thread;
  held.syncs = actor.syncs;
  held.bytes = bytes & 15;
  held.scope = scope;
  held.readers = readers;
  return found;
}

/// "thread 3 of block 1", for messages. Parts equal to `other` are omitted.
std::string describe(const Stamp& stamp, const Actor& other);

}  // namespace ringlet::emulated
