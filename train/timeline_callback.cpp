#include "ringlet/train/timeline_callback.h"

#include <memory>
#include <optional>

#include "ringlet/train/trainer_arguments.h"
#include "ringlet/train/training_job.h"

namespace ringlet::train {
namespace {

struct Recorder {
  void begin(const TrainingArguments& arguments) {
    title = str(kStrategies(arguments.strategy), ", rank ", group.rank());
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
