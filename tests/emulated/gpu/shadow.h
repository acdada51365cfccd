// Shadow memory for race detection: the last read and write of every four bytes, or of every byte
// where threads access single ones.
#pragma once

#include <array>
#include <cstddef>
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
  std::uint32_t syncs = 0;  // of the warp, modulo kSyncs
};
inline constexpr int kSyncBits = 17;
inline constexpr std::uint32_t kSyncs = 1u << kSyncBits;

/// The unordered readers that one stamp represents; `pending`: the write of a copy that its thread
/// has not waited for.
enum class Readers : std::uint8_t { one, of_warp, of_block, pending, of_grid, of_operations };

/// The last read or write.
struct Stamp {
  OperationId operation = 0;
  std::uint32_t block = 0;  // of_operations: the OperationSet
  std::uint32_t barriers = 0;
  std::uint32_t thread : 10 = 0;
  std::uint32_t syncs : kSyncBits = 0;
  Scope scope : 2 = Scope::weak;
  Readers readers : 3 = Readers::one;
};

/// The shadow of four bytes, or of one of four where threads access single bytes.
struct Granule {
  Stamp written, read;
  bool is_split() const { return written.operation == kSplit; }
  /// The read, or the write.
  void keep(const Actor& actor, bool writes, Scope scope);
  static constexpr OperationId kSplit = ~OperationId{0};
};
static_assert(sizeof(Granule) == 32);

/// The shadow of an access, from the four bytes in which it begins. Every four bytes have one
/// granule, and four more that are used if it is split.
struct Shadow {
  Granule* whole = nullptr;
  Granule* parts = nullptr;
};

/// The least scope of two strong accesses that meet at an address: of a block, of its GPU, or of
/// several.
Scope scope_between(OperationId operation, std::uint32_t block, const Actor& actor);

/// Orders accesses of different blocks or operations.
class Order {
 public:
  bool is_before(const Stamp& earlier, const Actor& now) const {
    return remembered(earlier.operation) == earlier.operation || decide(earlier, now);
  }

 protected:
  ~Order() = default;
  virtual bool decide(const Stamp& earlier, const Actor& now) const = 0;
  /// For an operation that happened before all actors.
  void remember(OperationId earlier) const { remembered(earlier) = earlier; }

 private:
  OperationId& remembered(OperationId earlier) const {
    return remembered_[earlier % remembered_.size()];
  }
  mutable std::array<OperationId, 16> remembered_{};
};

inline bool is_before(const Stamp& stamp, const Actor& actor, const Order& order) {
  if (stamp.operation == 0) return true;
  const bool same_block = stamp.operation == actor.operation && stamp.block == actor.block;
  if (!same_block || stamp.readers >= Readers::of_grid) return order.is_before(stamp, actor);
  if (stamp.readers == Readers::pending) return false;
  if (stamp.barriers != actor.barriers) return true;
  if (stamp.readers == Readers::of_block) return false;
  if (stamp.thread / kLanes != actor.thread / kLanes) return false;
  if (stamp.syncs != actor.syncs) return true;
  return stamp.readers == Readers::one && stamp.thread == actor.thread;
}

inline void Granule::keep(const Actor& actor, bool writes, Scope scope) {
  Stamp& held = writes ? written : read;
  held.operation = actor.operation;
  held.block = actor.block;
  held.barriers = actor.barriers;
  held.thread = actor.thread;
  held.syncs = actor.syncs;
  held.scope = scope;
  held.readers = Readers::one;
}

/// Records an access of a whole granule that needs no more: all earlier ones are ordered before it,
/// or it repeats a read. Returns false, and records nothing, if note_access() must decide.
inline bool note_ordered(Granule& granule, const Actor& actor, bool writes, Scope scope,
                         const Order& order) {
  const Stamp& read = granule.read;
  if (granule.is_split() || read.readers == Readers::of_operations) return false;
  if (!is_before(granule.written, actor, order)) return false;
  if (is_before(read, actor, order)) {
    granule.keep(actor, writes, scope);
    return true;
  }
  const bool same_block = read.operation == actor.operation && read.block == actor.block;
  if (writes || !same_block || read.scope != scope || read.barriers != actor.barriers) return false;
  return read.readers == Readers::of_block ||
         (read.readers == Readers::of_warp && read.thread / kLanes == actor.thread / kLanes &&
          read.syncs == actor.syncs);
}

struct AccessedBytes {
  std::uint64_t address = 0;
  std::size_t nbytes = 0;
};

/// Records an access. Returns the conflicting stamp or null; it is valid until the next call in
/// this thread. Two strong accesses do not conflict if the scope of each includes the other.
const Stamp* note_access(Shadow shadow, const AccessedBytes& bytes, const Actor& actor, bool writes,
                         Scope scope, const Order& order);

/// Whether the last write of one of the bytes is the operation's.
bool is_written_by(Shadow shadow, const AccessedBytes& bytes, OperationId operation);

/// "thread 3 of block 1 of `kernel` on stream 2", for messages. Parts equal to `other` are omitted.
std::string describe(const Stamp& stamp, const Actor& other);

}  // namespace ringlet::emulated
