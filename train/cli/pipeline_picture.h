// A pipeline's schedule in time: as text and as a picture.
#pragma once

#include <string>

#include "ringlet/train/parallel/model/pipeline_simulation.h"

namespace ringlet::cli {

/// A line for each rank, a cell for each unit of time: "F3" is the forward of micro-batch 3, "F3b"
/// that of the second chunk; "-" continues a computation, "." waits. Then the bubble, the messages
/// and the activations that ranks keep.
std::string describe_pipeline(train::PipelineKind kind, const train::PipelineShape& shape);

/// SVG. Time runs to the right; each rank is a row of bars.
std::string draw_pipeline(train::PipelineKind kind, const train::PipelineShape& shape);

}  // namespace ringlet::cli
