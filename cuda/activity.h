// When the kernels, copies and fills of a GPU ran, from CUPTI's activity records. Each kernel of a
// graph has a record.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/core/device/device.h"

namespace ringlet::cuda {

/// [begin, end) in nanoseconds of an arbitrary clock.
struct Interval {
  std::uint64_t begin;
  std::uint64_t end;

  friend bool operator==(const Interval&, const Interval&) = default;
};

/// The union of the intervals, ascending; the results neither overlap nor touch.
inline std::vector<Interval> union_of(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> out;
  for (const Interval& next : intervals) {
    if (next.end <= next.begin) continue;
    if (!out.empty() && next.begin <= out.back().end)
      out.back().end = std::max(out.back().end, next.end);
    else
      out.push_back(next);
  }
  return out;
}

/// The time between the intervals of a union.
inline std::vector<Interval> gaps(const std::vector<Interval>& busy) {
  std::vector<Interval> out;
  for (std::size_t i = 1; i < busy.size(); ++i) out.push_back({busy[i - 1].end, busy[i].begin});
  return out;
}

/// The total length of intervals that do not overlap.
inline std::uint64_t total(const std::vector<Interval>& intervals) {
  std::uint64_t sum = 0;
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

/// The idle share of the time from the first begin of a union to its last end; 0 if it is empty.
inline double idle_share(const std::vector<Interval>& busy) {
  if (busy.empty()) return 0;
  return static_cast<double>(total(gaps(busy))) /
         static_cast<double>(busy.back().end - busy.front().begin);
}

struct Cupti;

struct Activity {
  Interval time;
  std::string name;  // of a kernel, mangled; else "copy" or "fill"
  bool in_graph = false;

  friend bool operator==(const Activity&, const Activity&) = default;
};

/// Records during its lifetime. Recording slows the work down, and may slow it slightly afterwards.
class ActivityRecording {
 public:
  virtual ~ActivityRecording() = default;
  /// Synchronises with the device. Returns its work since the beginning or the last call, in any
  /// order.
  /// Error if a record is missing or incomplete.
  virtual std::vector<Activity> take() = 0;
};

/// Starts recording; at most one recording at a time in a process. Error, one line with CUPTI's
/// message, where CUPTI is missing or the system forbids recording.
std::unique_ptr<ActivityRecording> record_activity(Device device);
/// The same with these functions of CUPTI.
std::unique_ptr<ActivityRecording> record_activity(Device device, const Cupti& cupti);

}  // namespace ringlet::cuda
