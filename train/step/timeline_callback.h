// A timeline of a Trainer's steps.
//
//   trainer.add_callback(record_timeline("timeline.json", model.device(), group, "ddp"));
#pragma once

#include <string>

#include "ringlet/comm/group.h"
#include "ringlet/train/report/timeline.h"
#include "ringlet/train/step/trainer_callback.h"

namespace ringlet::train {

/// Steps that are recorded; on a GPU one more, which is in flight when the last one is reported.
inline constexpr int kTimelineSteps = 8;

/// Records the run's first steps on every rank, and what is between them. Rank 0 then writes
/// `files`, of a shorter run at its end. Collectives are recorded if the group was made with
/// Timeline::of_collectives(). No recorded step is replayed as a graph.
/// `title`: of this rank's timeline, before its number; the ranks' may differ.
TrainerCallback record_timeline(TimelineFiles files, Device device, comm::Group group,
                                std::string title = {});

}  // namespace ringlet::train
