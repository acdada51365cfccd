#include "device_idle.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "emulated_counts.h"
#include "ringlet/core/base/error.h"

namespace ringlet::bench {
namespace {

constexpr int kTries = 10;  // batches of new shapes run and are captured instead
constexpr double kMillisecond = 1e6;

struct Gap {
  std::uint64_t begin = 0, length = 0;
  std::string from, to;
};

// `work` is in the order of its begin.
Gap longest_gap(const std::vector<cuda::Activity>& work) {
  Gap longest;
  const cuda::Activity* last = &work.front();  // to end, so far
  for (const cuda::Activity& next : work) {
    if (next.time.begin > last->time.end + longest.length)
      longest = {last->time.end, next.time.begin - last->time.end, last->name, next.name};
    if (next.time.end > last->time.end) last = &next;
  }
  return longest;
}

std::vector<cuda::Interval> busy_in(const std::vector<cuda::Activity>& work) {
  std::vector<cuda::Interval> times;
  for (const cuda::Activity& each : work) times.push_back(each.time);
  return cuda::union_of(std::move(times));
}

DeviceIdle idle_of(std::vector<cuda::Activity> work, int steps) {
  std::ranges::sort(work, {}, [](const cuda::Activity& each) { return each.time.begin; });
  const auto first = std::ranges::find_if(work, &cuda::Activity::in_graph);
  RINGLET_CHECK(first != work.end(), "[idle] nothing of a graph was recorded");
  const std::uint64_t before = first->time.begin - work.front().time.begin;
  work.erase(work.begin(), first);
  const std::vector<cuda::Interval> busy = busy_in(work);
  const Gap longest = longest_gap(work);
  const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) / kMillisecond; };
  const double span = ms(busy.back().end - busy.front().begin), ran = ms(cuda::total(busy));
  return {.steps = static_cast<double>(steps),
          .span_ms = span / steps,
          .busy_ms = ran / steps,
          .longest_gap_ms = ms(longest.length),
          .share = cuda::idle_share(busy),
          .share_without_longest = 1 - ran / (span - ms(longest.length)),
          .longest_gap_at = longest.length > 0 ? ms(longest.begin - busy.front().begin) / span : 0,
          .longest_from = short_name(longest.from),
          .longest_to = short_name(longest.to),
          .before_ms = ms(before)};
}

}  // namespace

DeviceIdle record_idle(cuda::ActivityRecording& recording, int steps,
                       const std::function<bool(int steps)>& replay) {
  replay(steps);
  recording.take();
  for (int i = 0; i < kTries; ++i) {
    const bool replayed = replay(steps);
    std::vector<cuda::Activity> work = recording.take();
    if (replayed) return idle_of(std::move(work), steps);
  }
  fail("[idle] no ", steps, " steps in a row were all replayed, of ", kTries, " times");
}

}  // namespace ringlet::bench
