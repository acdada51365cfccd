// The steps of a ring's all-reduce, a pipeline's schedule in time, and a training step: as text and
// as pictures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringlet/comm/trace.h"
#include "ringlet/train/parallel/model/pipeline_schedule.h"
#include "ringlet/train/parallel/strategy_name.h"

namespace ringlet::cli {

/// A line for each move of `ranks` ranks, under the line of its step, with the ranks
/// that the piece is then the sum of.
std::string describe_ring(const std::vector<comm::Move>& moves, int ranks);

/// SVG. Time runs downwards; each rank is a vertical line, rank 0 again at the right, as the ring
/// closes there. A move is a line in its piece's colour, then the piece's number; it ends in a dot.
/// "✓" follows where the piece is complete.
std::string draw_ring(const std::vector<comm::Move>& moves, int ranks);

/// A line for each sum over `logical_ranks`, under the sum that it is a part of, with the rank that
/// adds it. Then what each rank sends.
std::string describe_tree(int ranks, int logical_ranks);

/// A line for each rank, a cell for each unit of time: "F3" is the forward of micro-batch 3, "F3b"
/// that of the second chunk; "-" continues a computation, "." waits. Then the bubble, the messages
/// and the activations that ranks keep.
std::string describe_pipeline(train::PipelineKind kind, const train::PipelineShape& shape);

/// SVG. Time runs to the right; each rank is a row of bars.
std::string draw_pipeline(train::PipelineKind kind, const train::PipelineShape& shape);

/// A line for each computation and collective of a step that ranks execute, as threads. Without a
/// strategy: tensor parallelism.
std::string describe_step(const std::optional<train::Strategy>& strategy, int ranks);

}  // namespace ringlet::cli
