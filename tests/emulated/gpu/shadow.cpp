#include "shadow.h"

#include <algorithm>
#include <map>

namespace ringlet::emulated {
namespace {

/// Interned sets of unordered operations that read the same bytes.
class OperationSets {
 public:
  /// The index of the set of `held` and `added` without operations before `added`.
  std::uint32_t with(const Stamp& held, const Actor& added, const Order& order) {
    const bool is_set = held.readers == Readers::of_operations;
    const Key key{is_set, is_set ? held.block : held.operation, added.operation};
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    std::vector<OperationId> set{added.operation};
    for (const OperationId operation : is_set ? sets_[held.block] : std::vector{held.operation})
      if (operation != added.operation && !order.is_before(reader(operation), added))
        set.push_back(operation);
    std::sort(set.begin(), set.end());
    const auto [index, is_new] =
        indices_.try_emplace(set, static_cast<std::uint32_t>(sets_.size()));
    if (is_new) sets_.push_back(std::move(set));
    return known_[key] = index->second;
  }

  /// One of the set that is not ordered before the actor; 0 if there is none.
  OperationId unordered(std::uint32_t set, const Actor& actor, const Order& order) const {
    for (const OperationId operation : sets_[set])
      if (!order.is_before(reader(operation), actor)) return operation;
    return 0;
  }

  static Stamp reader(OperationId operation) {
    Stamp stamp;
    stamp.operation = operation;
    stamp.readers = Readers::of_grid;
    return stamp;
  }

 private:
  struct Key {
    bool is_set;
    std::uint32_t held;
    OperationId added;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::uint32_t> known_;
  std::map<std::vector<OperationId>, std::uint32_t> indices_;
  std::vector<std::vector<OperationId>> sets_;
};

OperationSets& sets() {
  static auto* const all = new OperationSets;
  return *all;
}

// The conflicting stamp, or one without an operation.
Stamp conflict(const Stamp& stamp, const Actor& actor, Scope scope, const Order& order) {
  const Scope both = std::min(stamp.scope, scope);
  if (both != Scope::weak && both >= scope_between(stamp.operation, stamp.block, actor))
    return Stamp();
  if (stamp.readers == Readers::of_operations)
    return OperationSets::reader(sets().unordered(stamp.block, actor, order));
  return is_before(stamp, actor, order) ? Stamp{} : stamp;
}

Readers with_reader(const Stamp& read, const Actor& actor) {
  if (read.operation != actor.operation || read.readers == Readers::of_operations)
    return Readers::of_operations;
  if (read.block != actor.block || read.readers == Readers::of_grid) return Readers::of_grid;
  const bool same_warp = read.thread / kLanes == actor.thread / kLanes;
  return same_warp && read.readers != Readers::of_block ? Readers::of_warp : Readers::of_block;
}

bool is_beside(const Stamp& read, const Actor& actor, const Order& order) {
  if (read.readers == Readers::of_operations)
    return sets().unordered(read.block, actor, order) != 0;
  return !is_before(read, actor, order);
}

// Returns the conflicting stamp, or one without an operation.
Stamp note(Granule& granule, const Actor& actor, bool writes, Scope scope, const Order& order) {
  Stamp found = conflict(granule.written, actor, scope, order);
  if (writes && found.operation == 0) found = conflict(granule.read, actor, scope, order);
  Stamp& held = writes ? granule.written : granule.read;
  Readers readers = Readers::one;
  std::uint32_t block = actor.block;
  if (!writes && is_beside(held, actor, order)) readers = with_reader(held, actor);
  if (readers == Readers::of_operations) block = sets().with(held, actor, order);
  granule.keep(actor, writes, scope);
  held.block = block;
  held.readers = readers;
  return found;
}

Stamp note_parts(const Shadow& shadow, std::uint64_t first, std::size_t count, const Actor& actor,
                 bool writes, Scope scope, const Order& order) {
  if (!shadow.whole->is_split()) {
    std::fill_n(shadow.parts, 4, *shadow.whole);
    shadow.whole->written.operation = Granule::kSplit;
  }
  Stamp found;
  for (std::uint64_t i = first; i < first + count; ++i) {
    const Stamp raced = note(shadow.parts[i], actor, writes, scope, order);
    if (found.operation == 0) found = raced;
  }
  // Earlier reads are ordered before all that is ordered after this write.
  if (writes && count == 4) *shadow.whole = {shadow.parts[0].written, Stamp()};
  return found;
}

// Calls body(shadow, first, count) for the bytes of each granule until it returns true.
template <class Body>
bool any_granule(Shadow shadow, const AccessedBytes& bytes, const Body& body) {
  for (std::size_t done = 0; done < bytes.nbytes; ++shadow.whole, shadow.parts += 4) {
    const std::uint64_t first = (bytes.address + done) % 4;
    const std::size_t count = std::min<std::size_t>(4 - first, bytes.nbytes - done);
    if (body(shadow, first, count)) return true;
    done += count;
  }
  return false;
}

}  // namespace

Scope scope_between(OperationId operation, std::uint32_t block, const Actor& actor) {
  if (operation == actor.operation) return block == actor.block ? Scope::block : Scope::gpu;
  const OperationOrder& order = operation_order();
  return order.device(operation) == order.device(actor.operation) ? Scope::gpu : Scope::system;
}

const Stamp* note_access(Shadow shadow, const AccessedBytes& bytes, const Actor& actor, bool writes,
                         Scope scope, const Order& order) {
  thread_local Stamp raced;
  const bool found =
      any_granule(shadow, bytes, [&](const Shadow& at, std::uint64_t first, std::size_t count) {
        raced = count == 4 && !at.whole->is_split()
                    ? note(*at.whole, actor, writes, scope, order)
                    : note_parts(at, first, count, actor, writes, scope, order);
        return raced.operation != 0;
      });
  return found ? &raced : nullptr;
}

bool is_written_by(Shadow shadow, const AccessedBytes& bytes, OperationId operation) {
  return any_granule(shadow, bytes, [&](const Shadow& at, std::uint64_t first, std::size_t count) {
    if (!at.whole->is_split()) return at.whole->written.operation == operation;
    return std::any_of(at.parts + first, at.parts + first + count,
                       [&](const Granule& part) { return part.written.operation == operation; });
  });
}

std::string describe(const Stamp& stamp, const Actor& other) {
  const bool same = stamp.operation == other.operation;
  std::string text;
  if (stamp.readers != Readers::of_grid) {
    text = "thread " + std::to_string(stamp.thread);
    if (!same || stamp.block != other.block) text += " of block " + std::to_string(stamp.block);
  }
  if (same) return text.empty() ? "threads of other blocks" : text;
  return text + (text.empty() ? "" : " of ") + operation_order().describe(stamp.operation);
}

}  // namespace ringlet::emulated
