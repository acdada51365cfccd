#include "ringlet/train/timeline_callback.h"

#include <memory>
#include <optional>

#include "ringlet/train/trainer_arguments.h"
#include "ringlet/train/training_job.h"

namespace ringlet::train {
namespace {

/// "ddp, rank 2", or in a mesh "ddp, pipe 1, tensor 0, rank 2": its places along these axes.
std::string title_of(const TrainingArguments& arguments, const comm::Group& group) {
  const MeshShape mesh = arguments.mesh.over(group.size());
  const int rank = group.rank();
  return str(kStrategies(arguments.strategy),
             mesh.pipe > 1 ? str(", pipe ", mesh.pipe_place(rank)) : "",
             mesh.tensor > 1 ? str(", tensor ", mesh.tensor_place(rank)) : "", ", rank ", rank);
}

struct Recorder {
  void begin(const TrainingArguments& arguments) {
    title = title_of(arguments, group);
    steps = 0;
    group.barrier();  // the ranks' times begin together
    timeline.emplace(device, group.rank());
  }
  void end() {
    if (!timeline) return;
    const RankTimeline mine{title, timeline->spans()};
    timeline.reset();
    const std::vector<RankTimeline> ranks = gather(mine, group);
    if (group.rank() == 0) files.write(ranks);
  }

  TimelineFiles files;
  Device device;
  comm::Group group;
  std::string title = {};
  int steps = 0;
  std::optional<Timeline> timeline = {};
};

}  // namespace

TrainerCallback record_timeline(TimelineFiles files, Device device, comm::Group group) {
  const std::shared_ptr<Recorder> recorder(
      new Recorder{std::move(files), device, std::move(group)});
  TrainerCallback callback;
  callback.on_train_begin = [=](const TrainingArguments& arguments) { recorder->begin(arguments); };
  callback.on_step_end = [=](const StepReport&) {
    if (++recorder->steps == kTimelineSteps) recorder->end();
  };
  callback.on_train_end = [=](const TrainingResult&) { recorder->end(); };
  return callback;
}

}  // namespace ringlet::train
