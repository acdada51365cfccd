// What a rank calls, as the other ranks see it: every message carries it, so that two ranks that
// disagree find out in the first step.
#pragma once

#include <cstdint>
#include <string>

#include "ringlet/comm/group.h"

namespace ringlet::comm {

enum class Op : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, barrier };
std::string_view name(Op op);  // "all_reduce"

struct Call {
  std::uint64_t sequence = 0;  // the group's collectives, counted from 1
  std::int64_t count = 0;      // elements of the whole buffer
  std::uint64_t layout = 0;    // hash of the pieces and the number of segments
  std::int32_t root = 0;
  Op op = Op::barrier;
  ReduceOp reduce = ReduceOp::sum;
  DType dtype = DType::u8;
  Algorithm algorithm = Algorithm::direct;

  bool operator==(const Call&) const = default;
};
static_assert(sizeof(Call) % sizeof(std::uint64_t) == 0);

/// "all_reduce (f32, 256)"
std::string describe(const Call& call);
/// "[all_reduce] collective 7 (f32, 256), step 1", the beginning of an error.
std::string describe_step(const Call& call, std::uint64_t step);
/// "rank 1 called all_gather (f32, 128), rank 0 all_reduce (f32, 256), collective 7"; where these
/// agree, what else differs.
std::string describe_mismatch(int rank, const Call& call, int other_rank, const Call& other);
std::uint64_t hash_layout(const Pieces& pieces, std::int64_t segments);

}  // namespace ringlet::comm
