#include "special.h"

#include <unordered_map>

#include "../gpu/launch.h"

namespace ringlet::emulated {
namespace {

template <u32 kFunction(const Warp&, u32 thread)>
void run_special(Warp& warp, const Instruction& at, Mask mask) {
  u32* const out = result<u32>(warp, at.out[0]);
  for_lanes(mask, [&](int lane) { out[lane] = kFunction(warp, thread_of(warp, lane)); });
}

const LaunchShape& shape(const Warp& warp) { return warp.block->launch->shape; }

u32 tid_x(const Warp& warp, u32 thread) { return thread % shape(warp).block.x; }
u32 tid_y(const Warp& warp, u32 thread) {
  return thread / shape(warp).block.x % shape(warp).block.y;
}
u32 tid_z(const Warp& warp, u32 thread) {
  return thread / shape(warp).block.x / shape(warp).block.y;
}
u32 ntid_x(const Warp& warp, u32) { return shape(warp).block.x; }
u32 ntid_y(const Warp& warp, u32) { return shape(warp).block.y; }
u32 ntid_z(const Warp& warp, u32) { return shape(warp).block.z; }
u32 ctaid_x(const Warp& warp, u32) { return warp.block->x; }
u32 ctaid_y(const Warp& warp, u32) { return warp.block->y; }
u32 ctaid_z(const Warp& warp, u32) { return warp.block->z; }
u32 nctaid_x(const Warp& warp, u32) { return shape(warp).grid.x; }
u32 nctaid_y(const Warp& warp, u32) { return shape(warp).grid.y; }
u32 nctaid_z(const Warp& warp, u32) { return shape(warp).grid.z; }
u32 laneid(const Warp&, u32 thread) { return thread % kLanes; }
u32 lanemask_eq(const Warp&, u32 thread) { return 1u << thread % kLanes; }
u32 lanemask_lt(const Warp& warp, u32 thread) { return lanemask_eq(warp, thread) - 1; }
u32 lanemask_le(const Warp& warp, u32 thread) {
  return lanemask_lt(warp, thread) | lanemask_eq(warp, thread);
}
u32 lanemask_ge(const Warp& warp, u32 thread) { return ~lanemask_lt(warp, thread); }
u32 lanemask_gt(const Warp& warp, u32 thread) { return ~lanemask_le(warp, thread); }

// One nanosecond per warp instruction: spins with a deadline end, and a run is reproducible.
void run_timer(Warp& warp, const Instruction& at, Mask mask) {
  auto* const out = result<std::uint64_t>(warp, at.out[0]);
  const std::uint64_t now = emulated_nanoseconds() + warp.block->launch->executed;
  for_lanes(mask, [&](int lane) { out[lane] = now; });
}

}  // namespace

SpecialRegister special_register(const std::string& name) {
  static const std::unordered_map<std::string, SpecialRegister> registers{
      {"%tid.x", {&run_special<tid_x>}},
      {"%tid.y", {&run_special<tid_y>}},
      {"%tid.z", {&run_special<tid_z>}},
      {"%ntid.x", {&run_special<ntid_x>}},
      {"%ntid.y", {&run_special<ntid_y>}},
      {"%ntid.z", {&run_special<ntid_z>}},
      {"%ctaid.x", {&run_special<ctaid_x>}},
      {"%ctaid.y", {&run_special<ctaid_y>}},
      {"%ctaid.z", {&run_special<ctaid_z>}},
      {"%nctaid.x", {&run_special<nctaid_x>}},
      {"%nctaid.y", {&run_special<nctaid_y>}},
      {"%nctaid.z", {&run_special<nctaid_z>}},
      {"%laneid", {&run_special<laneid>}},
      {"%lanemask_eq", {&run_special<lanemask_eq>}},
      {"%lanemask_lt", {&run_special<lanemask_lt>}},
      {"%lanemask_le", {&run_special<lanemask_le>}},
      {"%lanemask_ge", {&run_special<lanemask_ge>}},
      {"%lanemask_gt", {&run_special<lanemask_gt>}},
      {"%globaltimer", {&run_timer, 8}},
  };
  const auto found = registers.find(name);
  return found == registers.end() ? SpecialRegister{} : found->second;
}

}  // namespace ringlet::emulated
