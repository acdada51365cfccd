#include "device_idle.h"

#include <algorithm>
#include <vector>

#include "ringlet/core/base/error.h"

namespace ringlet::bench {
namespace {

constexpr int kTries = 10;  // batches of new shapes run and are captured instead
constexpr double kMillisecond = 1e6;

DeviceIdle idle_of(const std::vector<cuda::Interval>& work, int steps) {
  const std::vector<cuda::Interval> busy = cuda::union_of(work);
  RINGLET_CHECK(!busy.empty(), "[idle] nothing that the device did was recorded");
  std::uint64_t longest = 0;
  for (const cuda::Interval& gap : cuda::gaps(busy))
    longest = std::max(longest, gap.end - gap.begin);
  const auto per_step = [&](std::uint64_t ns) {
    return static_cast<double>(ns) / kMillisecond / steps;
  };
  return {static_cast<double>(steps), per_step(busy.back().end - busy.front().begin),
          per_step(cuda::total(busy)), static_cast<double>(longest) / kMillisecond,
          cuda::idle_share(busy)};
}

}  // namespace

DeviceIdle record_idle(cuda::ActivityRecording& recording, int steps,
                       const std::function<bool(int steps)>& replay) {
  replay(steps);
  recording.take();
  for (int i = 0; i < kTries; ++i) {
    const bool replayed = replay(steps);
    const std::vector<cuda::Interval> work = recording.take();
    if (replayed) return idle_of(work, steps);
  }
  fail("[idle] no ", steps, " steps in a row were all replayed, of ", kTries, " times");
}

}  // namespace ringlet::bench
