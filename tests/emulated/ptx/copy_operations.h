// ldmatrix and cp.async (PTX manual, 9.7.15.5.15 and 9.7.9.25.3).
#pragma once

#include "../gpu/warp.h"

namespace ringlet::emulated {

/// `variant` matrices of 8 x 8 b16. Lane 8 i + r has the address of row r of matrix i, and lane
/// 4 r + c gets elements 2 c and 2 c + 1 of row r; transposed: of column r.
template <bool kTransposed>
void run_ldmatrix(Warp& warp, const Instruction& at, Mask mask);
extern template void run_ldmatrix<false>(Warp&, const Instruction&, Mask);
extern template void run_ldmatrix<true>(Warp&, const Instruction&, Mask);

/// Copies from in[1] + source_offset to shared memory. in[2] is the number of bytes that are read,
/// or with `flag` a predicate that nothing is read; the rest is filled with zeros.
void run_copy(Warp& warp, const Instruction& at, Mask mask);
void run_commit_copies(Warp& warp, const Instruction& at, Mask mask);
/// All but the last in[0] groups; with `flag` commits and waits for all.
void run_wait_for_copies(Warp& warp, const Instruction& at, Mask mask);

}  // namespace ringlet::emulated
