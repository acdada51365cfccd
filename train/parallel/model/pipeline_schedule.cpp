#include "ringlet/train/parallel/model/pipeline_schedule.h"

#include <algorithm>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

using Actions = std::vector<PipelineAction>;

Actions gpipe(const PipelineShape& shape) {
  Actions actions;
  for (int k = 0; k < shape.micro_batches; ++k) actions.push_back({Computation::forward, 0, k});
  for (int k = 0; k < shape.micro_batches; ++k) actions.push_back({Computation::backward, 0, k});
  return actions;
}

/// One forward, one backward, after `warm_up` forwards; action x of each kind is at(what, x).
template <class At>
Actions alternate(int warm_up, int count, const At& at) {
  Actions actions;
  for (int x = 0; x < warm_up; ++x) actions.push_back(at(Computation::forward, x));
  for (int x = 0; x < count; ++x) {
    if (x + warm_up < count) actions.push_back(at(Computation::forward, x + warm_up));
    actions.push_back(at(Computation::backward, x));
  }
  return actions;
}

Actions one_f_one_b(const PipelineShape& shape, int rank) {
  const int warm_up = std::min(shape.ranks - 1 - rank, shape.micro_batches);
  return alternate(warm_up, shape.micro_batches, [](Computation what, int x) {
    return PipelineAction{what, 0, x};
  });
}

/// Groups of `ranks` micro-batches pass chunk after chunk.
Actions interleaved(const PipelineShape& shape, int rank) {
  const int ranks = shape.ranks, group = ranks * shape.chunks;
  const int count = shape.micro_batches * shape.chunks;
  const int warm_up = std::min(2 * (ranks - 1 - rank) + (shape.chunks - 1) * ranks, count);
  return alternate(warm_up, count, [&](Computation what, int x) {
    const int chunk = x % group / ranks;
    return PipelineAction{what, what == Computation::forward ? chunk : shape.chunks - 1 - chunk,
                          x / group * ranks + x % ranks};
  });
}

/// W is delayed by as many micro-batches as the rank's number, and fills the end.
Actions zero_bubble(const PipelineShape& shape, int rank) {
  const int count = shape.micro_batches, ahead = shape.ranks - 1 - rank;
  Actions actions;
  for (int k = 0; k < std::min(ahead, count); ++k) actions.push_back({Computation::forward, 0, k});
  for (int k = 0; k < count; ++k) {
    if (k + ahead < count) actions.push_back({Computation::forward, 0, k + ahead});
    actions.push_back({Computation::input_gradient, 0, k});
    if (k >= rank) actions.push_back({Computation::weight_gradient, 0, k - rank});
  }
  for (int k = std::max(0, count - rank); k < count; ++k)
    actions.push_back({Computation::weight_gradient, 0, k});
  return actions;
}

Actions of_rank(PipelineKind kind, const PipelineShape& shape, int rank) {
  switch (kind) {
    case PipelineKind::gpipe:
      return gpipe(shape);
    case PipelineKind::one_f_one_b:
      return one_f_one_b(shape, rank);
    case PipelineKind::interleaved:
      return interleaved(shape, rank);
    case PipelineKind::zero_bubble:
      break;
  }
  return zero_bubble(shape, rank);
}

void check(PipelineKind kind, const PipelineShape& shape) {
  if (shape.ranks < 1 || shape.micro_batches < 1 || shape.chunks < 1)
    fail_input("pipeline: expected at least 1 rank, micro-batch and chunk, found ", shape.ranks,
               ", ", shape.micro_batches, " and ", shape.chunks);
  if (kind != PipelineKind::interleaved && shape.chunks != 1)
    fail_input("pipeline ", kPipelines(kind), ": expected 1 chunk of each rank, found ",
               shape.chunks);
  if (kind != PipelineKind::interleaved) return;
  if (shape.chunks == 1)
    fail_input("pipeline ", kPipelines(kind), ": expected at least 2 chunks of each rank, found 1");
  if (shape.micro_batches % shape.ranks != 0)
    fail_input("pipeline ", kPipelines(kind), ": expected a multiple of ", shape.ranks,
               " micro-batches, found ", shape.micro_batches);
}

}  // namespace

char letter(Computation what) { return "FBIW"[static_cast<int>(what)]; }

PipelineSchedule make_pipeline(PipelineKind kind, const PipelineShape& shape) {
  check(kind, shape);
  PipelineSchedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank) schedule.push_back(of_rank(kind, shape, rank));
  return schedule;
}

std::optional<int> sends_to(Computation what, int stage, int stages) {
  if (what == Computation::weight_gradient) return std::nullopt;
  const int to = what == Computation::forward ? stage + 1 : stage - 1;
  return 0 <= to && to < stages ? std::optional(to) : std::nullopt;
}

}  // namespace ringlet::train
