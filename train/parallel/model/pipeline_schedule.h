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

#include <cstddef>
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
inline constexpr EnumNames<PipelineKind, 4> kPipelines{
    "pipeline schedule", {"gpipe", "1f1b", "interleaved-1f1b", "zero-bubble"}};

/// The cost that stages share out: numbers of layers, parameters, or measured seconds of forward
/// and backward.
enum class PipelineBalance { layers, parameters, time };
inline constexpr EnumNames<PipelineBalance, 3> kPipelineBalances{"pipeline balance",
                                                                 {"layers", "parameters", "time"}};

struct PipelineOptions {
  PipelineKind schedule = PipelineKind::one_f_one_b;
  std::vector<int> layers = {};  // of each stage; empty: by `balance`
  PipelineBalance balance = PipelineBalance::layers;
};

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

// ---- a schedule in time, without devices: when each rank computes, waits and keeps ----------

/// Times of a chunk's computations, in any unit. B takes input_gradient + weight_gradient.
struct PipelineCosts {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  double of(Computation what) const;
  double sum() const { return forward + input_gradient + weight_gradient; }
};

struct TimedAction {
  PipelineAction action;
  double start = 0, end = 0;
};

struct PipelineTimes {
  std::vector<std::vector<TimedAction>> ranks;
  double makespan = 0;
  std::size_t messages = 0;  // between ranks
  /// By rank: the most chunks times micro-batches at one time with F done and neither B nor I.
  std::vector<int> peak_activations;
  /// The same for W: what the gradients of weights need.
  std::vector<int> peak_weight_inputs;

  /// The share of the ranks' time without computation.
  double bubble() const;
};

/// Each pair of neighbouring stages has two lanes, one per direction, with room for
/// `lane_messages`. A rank with a message that finds no room waits until the receiver has taken an
/// earlier one; with room for 0, until it takes this one. Error, with the action at which each rank
/// waits, for a deadlock or a message in another order than its receiver's.
PipelineTimes simulate_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape,
                                const PipelineCosts& costs = {}, int lane_messages = 1);

}  // namespace ringlet::train
