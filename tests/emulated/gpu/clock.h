// Happens-before: vector clocks of stream operations and of concurrent blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../streams/scheduler.h"

namespace ringlet::emulated {

/// A launch or copy; 0 is none.
using OperationId = std::uint32_t;

using streams::StreamClock;

inline void join(StreamClock& into, const StreamClock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

/// The stream, position and name of every operation.
class OperationOrder {
 public:
  struct Place {
    std::uint32_t stream = 0, number = 0;
    int device = 0;
  };

  /// `name`: of the kernel or the API call, for messages.
  OperationId add(Place place, const std::string& name = "an operation") {
    places_.push_back(place);
    names_.push_back(&*known_names_.insert(name).first);
    return static_cast<OperationId>(places_.size() - 1);
  }
  /// Whether `earlier` happened before a position with this clock.
  bool is_before(OperationId earlier, const StreamClock& clock) const {
    const Place& place = places_[earlier];
    return place.stream < clock.size() && clock[place.stream] >= place.number;
  }
  int device(OperationId operation) const { return places_[operation].device; }
  /// "NAME on stream 2".
  std::string describe(OperationId operation) const;

 private:
  std::vector<Place> places_{1};
  std::vector<const std::string*> names_{1};
  std::set<std::string> known_names_;
};

OperationOrder& operation_order();

/// Accesses of concurrent blocks that release and acquire make visible. These are all accesses of a
/// block before its barrier number `barriers`, and those of one thread after it.
class BlockClock {
 public:
  using Block = std::pair<OperationId, std::uint32_t>;
  struct Seen {
    std::uint32_t barriers = 0;
    std::int32_t thread = -1;
  };

  bool empty() const { return seen_.empty(); }
  void see(const Block& block, const Seen& seen) {
    Seen& held = seen_[block];
    if (seen.barriers > held.barriers)
      held = seen;
    else if (seen.barriers == held.barriers && held.thread < 0)
      held.thread = seen.thread;
  }
  void join(const BlockClock& other) {
    for (const auto& [block, seen] : other.seen_) see(block, seen);
  }
  /// Joins the blocks of operations for which is_ordered(operation) is false.
  template <class IsOrdered>
  void join_unordered(const BlockClock& other, const IsOrdered& is_ordered) {
    for (const auto& [block, seen] : other.seen_)
      if (!is_ordered(block.first)) see(block, seen);
  }
  /// Calls each(operation) for the operations of its blocks, until one returns true.
  template <class Each>
  bool any_operation(const Each& each) const {
    for (auto at = seen_.begin(); at != seen_.end();
         at = seen_.upper_bound({at->first.first, UINT32_MAX}))
      if (each(at->first.first)) return true;
    return false;
  }
  bool has_seen(const Block& block, std::uint32_t barriers, std::uint32_t thread) const {
    const auto found = seen_.find(block);
    if (found == seen_.end()) return false;
    return barriers < found->second.barriers ||
           (barriers == found->second.barriers &&
            static_cast<std::int32_t>(thread) == found->second.thread);
  }

 private:
  std::map<Block, Seen> seen_;
};

}  // namespace ringlet::emulated
