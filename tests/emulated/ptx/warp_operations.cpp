// Warp-wide operations and barriers (PTX manual, 9.7.9.6, 9.7.13, 9.7.14).
#include "../gpu/fault.h"
#include "../gpu/launch.h"
#include "operations.h"

namespace ringlet::emulated {
namespace {

enum Shuffle : std::uint8_t { up, down, butterfly, index };

// The source lane and whether it lies inside the segment.
struct Source {
  int lane;
  bool within;
};
Source source_of(Shuffle mode, int lane, u32 by, u32 clamp_and_segment) {
  const int segment = static_cast<int>(clamp_and_segment >> 8 & 31);
  const int clamp = static_cast<int>(clamp_and_segment & 31), step = static_cast<int>(by & 31);
  const int most = (lane & segment) | (clamp & ~segment & 31), least = lane & segment;
  switch (mode) {
    case up:
      return {lane - step, lane - step >= most};
    case down:
      return {lane + step, lane + step <= most};
    case butterfly:
      return {lane ^ step, (lane ^ step) <= most};
    default: {
      const int from = least | (step & ~segment);
      return {from, from <= most};
    }
  }
}

void run_shuffle(Warp& warp, const Instruction& at, Mask mask) {
  u32 values[kLanes];
  std::memcpy(values, cells<u32>(warp, at.in[0]), sizeof(values));
  const u32 *by = cells<u32>(warp, at.in[1]), *limits = cells<u32>(warp, at.in[2]);
  u32* const out = result<u32>(warp, at.out[0]);
  Mask within = 0;
  for_lanes(mask, [&](int lane) {
    Source source = source_of(static_cast<Shuffle>(at.variant), lane, by[lane], limits[lane]);
    within |= Mask{source.within} << lane;
    if (!source.within) source.lane = lane;
    if ((mask >> source.lane & 1) == 0)
      fault(warp, lane,
            "a shuffle reads lane " + std::to_string(source.lane) + ", which takes no part");
    out[lane] = values[source.lane];
  });
  if (at.out[1] != kNone) set_predicate(warp, at.out[1], within, mask);
}

enum Vote : std::uint8_t { ballot, any, all, unanimous };

void run_vote(Warp& warp, const Instruction& at, Mask mask) {
  const Mask held = predicate(warp, at.in[0]);
  const Mask votes = (at.flag ? ~held : held) & mask;
  if (at.variant == ballot) {
    u32* const out = result<u32>(warp, at.out[0]);
    for_lanes(mask, [&](int lane) { out[lane] = votes; });
    return;
  }
  const bool decided = at.variant == any   ? votes != 0
                       : at.variant == all ? votes == mask
                                           : votes == mask || votes == 0;
  set_predicate(warp, at.out[0], decided ? kAllLanes : 0, mask);
}

// __syncwarp(): orders the member lanes' memory accesses.
void run_warp_barrier(Warp& warp, const Instruction&, Mask) { ++warp.syncs; }

// Variants 1 and 2 reduce a predicate over the block by `and` and by `or`.
void run_barrier(Warp& warp, const Instruction& at, Mask mask) {
  if (at.variant == 0) return;
  const Mask held = predicate(warp, at.in[0]);
  const Mask votes = (at.flag ? ~held : held) & mask;
  if (votes != mask) warp.block->all = false;
  if (votes != 0) warp.block->any = true;
}

float wide(u32 pair, int which) {
  return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xffff0000u);
}

// D (16, 8) = A (16, 16) B (16, 8) + C. Lane 4 g + t holds:
//   A: rows g and g + 8, columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9
//   B: column g, rows 2 t, 2 t + 1, 2 t + 8, 2 t + 9
//   C, D: rows g and g + 8, columns 2 t, 2 t + 1
// Sums are f32 in the order of k. The order on a GPU is unspecified.
void run_mma_bf16(Warp& warp, const Instruction& at, Mask) {
  float a[16][16], b[8][16];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int k = 0; k < 8; ++k)
      a[k / 2 % 2 ? g + 8 : g][2 * t + k % 2 + (k < 4 ? 0 : 8)] =
          wide(cells<u32>(warp, at.in[static_cast<std::size_t>(k / 2)])[lane], k % 2);
    for (int k = 0; k < 4; ++k)
      b[g][2 * t + k % 2 + (k < 2 ? 0 : 8)] =
          wide(cells<u32>(warp, at.in[static_cast<std::size_t>(4 + k / 2)])[lane], k % 2);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int k = 0; k < 4; ++k) {
      const int row = lane / 4 + (k < 2 ? 0 : 8), column = lane % 4 * 2 + k % 2;
      float sum = 0;
      for (int i = 0; i < 16; ++i) sum += a[row][i] * b[column][i];
      const auto which = static_cast<std::size_t>(k);
      const float before = from_cell<float>(cells<u32>(warp, at.in[6 + which])[lane]);
      result<u32>(warp, at.out[which])[lane] = to_cell<float>(before + sum);
    }
  }
}

}  // namespace

void add_warp_operations(Operations& to) {
  using Kind = Instruction::Kind;
  const auto shuffle = [&](const char* name, Shuffle mode) {
    to[std::string("shfl.sync.") + name + ".b32"] = {
        &run_shuffle, 4, {4, 4, 4}, Kind::converge, mode};
  };
  shuffle("up", up);
  shuffle("down", down);
  shuffle("bfly", butterfly);
  shuffle("idx", index);
  for (const char* name : {"vote.sync.ballot.b32", "vote.ballot.sync.b32"})
    to[name] = {&run_vote, 4, {0}, Kind::converge, ballot};
  to["vote.sync.any.pred"] = {&run_vote, 0, {0}, Kind::converge, any};
  to["vote.sync.all.pred"] = {&run_vote, 0, {0}, Kind::converge, all};
  to["vote.sync.uni.pred"] = {&run_vote, 0, {0}, Kind::converge, unanimous};
  to["bar.warp.sync"] = {&run_warp_barrier, 0, {}, Kind::converge};
  to["bar.sync"] = {&run_barrier, 0, {}, Kind::barrier};
  to["bar.red.and.pred"] = {&run_barrier, 0, {0}, Kind::barrier, 1};
  to["bar.red.or.pred"] = {&run_barrier, 0, {0}, Kind::barrier, 2};
  to["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"] = {
      &run_mma_bf16, 4, {}, Kind::converge};
}

}  // namespace ringlet::emulated
