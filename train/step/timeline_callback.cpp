#include "ringlet/train/step/trainer_callback.h"

#include <memory>
#include <optional>

#include "ringlet/core/base/error.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::train {
namespace {

struct Recorder {
  void begin() {
    steps = 0;
    group.barrier();  // the ranks' times begin together
    timeline.emplace(device, group.rank());
  }
  void end() {
    if (!timeline) return;
    const RankTimeline mine{str(title, title.empty() ? "" : ", ", "rank ", group.rank()),
                            timeline->spans()};
    timeline.reset();
    const std::vector<RankTimeline> ranks = gather(mine, group);
    if (group.rank() == 0) files.write(ranks);
  }

  TimelineFiles files;
  Device device;
  comm::Group group;
  std::string title;
  int steps = 0;
  std::optional<Timeline> timeline = {};
};

}  // namespace

TrainerCallback record_timeline(TimelineFiles files, Device device, comm::Group group,
                                std::string title) {
  const std::shared_ptr<Recorder> recorder(
      new Recorder{std::move(files), device, std::move(group), std::move(title)});
  TrainerCallback callback;
  callback.on_train_begin = [=](const TrainingArguments&) { recorder->begin(); };
  callback.on_step_end = [=](const StepReport&) {
    if (++recorder->steps == kTimelineSteps) recorder->end();
  };
  callback.on_train_end = [=](const TrainingResult&) { recorder->end(); };
  return callback;
}

}  // namespace ringlet::train
