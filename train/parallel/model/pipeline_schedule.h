// Pipeline schedules: the computations of each rank, in order. A schedule is data, made without a
// device; simulate_pipeline() shows its time, its memory and that it cannot deadlock.
//
//   stage        layers that follow each other; stage s is chunk s / ranks of rank s % ranks
//   micro-batch  rows of a step that pass the stages together
//   message      a stage's output to the next stage, or the gradient of its input to the previous
//                one. It follows from the computations: see sends_to().
//
// Sources: GPipe (Huang et al. 2019), 1F1B or PipeDream-flush (Narayanan et al. 2021), its
// interleaved form (Megatron-LM, 2021), ZB-H1 (Qi et al. 2024).
#pragma once

#include <optional>
#include <vector>

#include "ringlet/core/base/names.h"

namespace ringlet::train {

/// The letters of PyTorch's pipelining: F forward; I gradient of the stage's input; W gradient of
/// its weights; B both.
enum class Computation { forward, backward, input_gradient, weight_gradient };
char letter(Computation what);

struct PipelineAction {
  Computation what = Computation::forward;
  int chunk = 0;
  int micro_batch = 0;
  bool operator==(const PipelineAction&) const = default;
};
/// By rank.
using PipelineSchedule = std::vector<std::vector<PipelineAction>>;

enum class PipelineKind { gpipe, one_f_one_b, interleaved, zero_bubble };
inline constexpr Names<PipelineKind, 4> kPipelines{
    "pipeline schedule", {"gpipe", "1f1b", "interleaved-1f1b", "zero-bubble"}};

struct PipelineShape {
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;  // stages of a rank
  int stages() const { return ranks * chunks; }
};

/// InputError unless sizes are at least 1; interleaved-1f1b has two chunks or more and a multiple
/// of `ranks` micro-batches, the others one chunk.
PipelineSchedule make_pipeline(PipelineKind kind, const PipelineShape& shape);

/// The stage that a computation of `stage` sends its result to; none at an end of the pipeline and
/// for W.
std::optional<int> sends_to(Computation what, int stage, int stages);

}  // namespace ringlet::train
