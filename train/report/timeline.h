// A recording of steps: when the kernels, waits and collectives of a rank began and ended, by the
// clock of its device. Written as a trace for Perfetto or Chrome, and drawn.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/core/device/device.h"
#include "ringlet/core/device/device_objects.h"

namespace ringlet::comm {
class CollectiveObserver;
class Group;
}  // namespace ringlet::comm

namespace ringlet::train {

struct Span {
  std::string track;  // "steps", "data", "compute"; "collectives" of each thread; "cpu:1" under DP
  std::string kind;   // "phase", "kernel", "wait", "collective" or "step"
  std::string name;
  double begin = 0;  // seconds since the recording began
  double end = 0;
  int depth = 0;  // in other spans of its thread and track
};

/// Records from its construction on. Each rank makes one, on the thread that trains; ranks may be
/// threads. Kernels of other threads count as the rank's if it is the only one of the process.
class Timeline {
 public:
  Timeline(Device device, int rank);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// For the GroupOptions::observer of the ranks; valid forever, idle without a timeline.
  static comm::CollectiveObserver& of_collectives();
  /// All that has ended, in that order. Waits for the device.
  std::vector<Span> spans() const;

 private:
  friend class TimelinePhase;
  class Recording;
  struct Observer;
  std::shared_ptr<Recording> recording_;
};

/// A phase of a step, by the rank's device, for the lifetime of this object: "data", "forward",
/// "backward", and "optimizer", which ends the step. Computations of a pipeline have PyTorch's
/// names: "1F3" is the forward of micro-batch 3 in stage 1, with the wait for its message. No
/// effect on a thread without a timeline.
class TimelinePhase {
 public:
  explicit TimelinePhase(std::string name);
  ~TimelinePhase();
  TimelinePhase(const TimelinePhase&) = delete;
  TimelinePhase& operator=(const TimelinePhase&) = delete;

 private:
  std::string name_;
  std::shared_ptr<Timeline::Recording> recording_;  // null: none
  std::unique_ptr<DeviceTime> begin_;
};

/// The spans of a rank, with a title such as "ddp, rank 0".
struct RankTimeline {
  std::string title;
  std::vector<Span> spans;
};
/// The timelines of all ranks, on each rank. Every rank calls it.
std::vector<RankTimeline> gather(const RankTimeline& mine, const comm::Group& group);
/// In Chrome's trace event format: a process for each rank, a thread for each track.
std::string to_trace(const std::vector<RankTimeline>& ranks);
/// The last step of each rank, on one scale in ms.
std::string to_svg(const std::vector<RankTimeline>& ranks);

/// NAME.json with the trace and NAME.svg with the drawing.
struct TimelineFiles {
  /// From either name. InputError for another ending.
  explicit TimelineFiles(const std::filesystem::path& either);
  void write(const std::vector<RankTimeline>& ranks) const;

  std::filesystem::path trace, drawing;
};

}  // namespace ringlet::train
