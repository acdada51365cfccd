// How ranks compare their calls, and texts for errors: about calls, and how far ranks have come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/comm/transport.h"

namespace ringlet::comm {

/// Call::layout: a hash of the pieces and the numbers of segments and of logical ranks.
std::uint64_t hash_layout(const Pieces& pieces, std::int64_t segments, int logical_ranks);

/// "all_reduce (f32, 256)"
std::string describe(const Call& call);
/// "[all_reduce] collective 7 (f32, 256)"
std::string describe_collective(const Call& call);
/// The same and ", step 1", the beginning of an error.
std::string describe_step(const Call& call, std::uint64_t step);
/// "rank 1 called all_gather (f32, 128), rank 0 all_reduce (f32, 256), collective 7"; if these
/// agree, the fields that differ.
std::string describe_mismatch(int rank, const Call& call, int other_rank, const Call& other);
/// "`where`: rank 0 waits for rank 2, which has left the group"
std::string describe_left(const std::string& where, int rank, int left);

/// The collective that a rank is in or was in last, and how many of its steps are behind it.
struct Progress {
  static constexpr std::uint64_t kFinished = 0xffffff;
  std::uint64_t sequence = 0;  // 0: none yet
  std::uint64_t step = 0;      // kFinished: done; larger counts are cut to it

  /// In one word, so that it is read atomically.
  std::uint64_t word() const { return sequence << 24 | std::min(step, kFinished); }
  static Progress of_word(std::uint64_t word) { return {word >> 24, word & kFinished}; }
};
/// "; ranks present: 0, 2; missing: 1": the ranks that have come to a collective, and the missing
/// ones. If none is missing, their steps: "; all ranks came; in step 0: 1; in step 2: 0, 3;
/// finished: 2". `names` are those of the ranks, unless empty.
std::string presence(std::uint64_t sequence, const std::vector<Progress>& of_ranks,
                     const std::vector<int>& names = {});
/// Appends to the group's cause ("rank 2 was killed") where `rank` was: "…; rank 0 was in
/// [all_reduce] collective 7 (f32, 256)". Appends nothing if the cause names that collective
/// itself.
std::string with_collective(const std::string& cause, int rank, const Call& call);

}  // namespace ringlet::comm
