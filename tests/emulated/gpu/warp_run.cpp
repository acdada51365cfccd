// Execution of a warp. Diverged lanes run as groups, the group with the lowest address first, and
// reconverge at equal addresses. PTX guarantees no more than forward progress of each lane.
#include <algorithm>

#include "fault.h"
#include "launch.h"

namespace ringlet::emulated {
namespace {

// The runnable group with the lowest address.
Lanes* choose(Warp& warp) {
  Lanes* best = nullptr;
  for (Lanes& lanes : warp.lanes)
    if (!lanes.waits && (!best || lanes.at < best->at)) best = &lanes;
  return best;
}

// Merges all groups at the same instruction into `to`.
void join_groups(Warp& warp, Lanes*& to) {
  if (warp.lanes.size() == 1) return;
  const std::uint32_t at = to->at;
  Mask mask = 0;
  for (const Lanes& lanes : warp.lanes)
    if (lanes.at == at) mask |= lanes.mask;
  to->mask = mask;
  to->waits = false;
  const Lanes kept = *to;
  std::erase_if(warp.lanes, [&](const Lanes& lanes) { return lanes.at == at; });
  warp.lanes.push_back(kept);
  to = &warp.lanes.back();
}

// False if the running group meets another one, or a runnable group has a lower address.
bool goes_on(const Warp& warp, const Lanes& running) {
  if (warp.lanes.size() == 1) return true;
  return std::none_of(warp.lanes.begin(), warp.lanes.end(), [&](const Lanes& other) {
    if (&other == &running) return false;
    return other.at == running.at || (!other.waits && other.at < running.at);
  });
}

Mask guarded(const Warp& warp, const Instruction& at, Mask mask) {
  if (at.guard == kNone) return mask;
  const Mask held = predicate(warp, at.guard);
  return mask & (at.negated ? ~held : held);
}

void exit_lanes(Warp& warp, Lanes& lanes, Mask mask) {
  warp.live &= ~mask;
  lanes.mask &= ~mask;
  ++lanes.at;
  std::erase_if(warp.lanes, [](const Lanes& group) { return group.mask == 0; });
  for (Lanes& group : warp.lanes) group.waits = false;  // some may have waited for these
}

// The lanes that must arrive together: the member mask, or all live lanes.
Mask members(const Warp& warp, const Instruction& at, Mask mask) {
  if (at.members == kNone) return warp.live;
  return cells<std::uint32_t>(warp, at.members)[std::countr_zero(mask)];
}

void check_members(const Warp& warp, Mask mask, Mask wanted) {
  if (wanted & ~warp.live) fault_of(warp, mask, "a warp operation names lanes that have exited");
  if (mask & ~wanted)
    fault_of(warp, mask & ~wanted, "a warp operation by a lane that its mask lacks");
}

}  // namespace

Stop run_warp(Warp& warp, std::int64_t& left) {
  Kernel& kernel = warp.block->launch->kernel;
  std::uint64_t& executed = warp.block->launch->executed;
  while (!warp.lanes.empty()) {
    Lanes* running = choose(warp);
    if (!running) {
      warp.at = &kernel.code[warp.lanes.front().at];
      fault_of(warp, warp.lanes.front().mask, "lanes wait for others that never come here");
    }
    join_groups(warp, running);
    for (bool go_on = true; go_on;) {
      const std::uint32_t place = running->at;
      const Instruction& at = kernel.code[place];
      const Mask mask = guarded(warp, at, running->mask);
      warp.at = &at;
      ++executed;
      Count& count = warp.block->launch->counts[place];
      ++count.warps;
      const bool jumps = at.kind == Instruction::Kind::branch;  // by all lanes that evaluate it
      count.lanes += static_cast<std::uint64_t>(std::popcount(jumps ? running->mask : mask));
      switch (at.kind) {
        case Instruction::Kind::plain:
          if (mask) at.run(warp, at, mask);
          ++running->at;
          break;
        case Instruction::Kind::branch:
          if (mask == running->mask) {
            running->at = at.target;
          } else if (mask == 0) {
            ++running->at;
          } else {
            running->mask &= ~mask;
            ++running->at;
            warp.lanes.push_back({at.target, mask, false});
            go_on = false;
          }
          break;
        case Instruction::Kind::exit:
          exit_lanes(warp, *running, mask);
          go_on = false;
          break;
        case Instruction::Kind::converge:
        case Instruction::Kind::barrier: {
          const Mask all = members(warp, at, running->mask);
          if (at.kind == Instruction::Kind::converge) check_members(warp, running->mask, all);
          if ((running->mask & all) != all) {
            running->waits = true;
            go_on = false;
            break;
          }
          at.run(warp, at, running->mask);
          ++running->at;
          if (at.kind == Instruction::Kind::barrier) return Stop::barrier;
          break;
        }
      }
      if (!go_on) break;
      if (--left <= 0) return Stop::slice;
      go_on = goes_on(warp, *running);
    }
  }
  return Stop::done;
}

}  // namespace ringlet::emulated
