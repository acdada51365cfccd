#include "profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ceilings.h"
#include "floors.h"

namespace ringlet::bench {
namespace {

using Clock = std::chrono::steady_clock;

// What a thread is in, outermost first, with the seconds that it was in this and nothing inside it.
// Every moment belongs to the innermost; to `between` where there is none.
struct Nesting {
  bool stepping = false;
  Clock::time_point last;
  std::vector<double> open;
  double between = 0;

  void pass_time() {
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - std::exchange(last, now)).count();
    (open.empty() ? between : open.back()) += seconds;
  }
  void begin() {
    pass_time();
    open.push_back(0);
  }
  /// What was begun last.
  double end() {
    pass_time();
    if (open.empty()) return 0;  // it began before anybody watched
    const double seconds = open.back();
    open.pop_back();
    return seconds;
  }
};
thread_local Nesting nesting;

std::vector<std::pair<std::string, KernelSum>> slowest_first(const KernelSums& sums) {
  std::vector<std::pair<std::string, KernelSum>> rows(sums.begin(), sums.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  return rows;
}

}  // namespace

void Profile::step_begins() {
  nesting = Nesting();
  nesting.stepping = true;
  nesting.last = Clock::now();
}

void Profile::step_ends() {
  nesting.pass_time();
  nesting.stepping = false;
  const std::lock_guard lock(mutex_);
  between_ += nesting.between;
  ++steps_;
}

void Profile::before(const char*, const void*, Device) { nesting.begin(); }

// Calls of one label differ in what they must do (lengths, rows that are read), so floors add up.
void Profile::after(const char* name, const void* args, Device) {
  const double seconds = nesting.end();
  const Floor floor = floor_of(name, args);
  const std::lock_guard lock(mutex_);
  Calls& calls = (nesting.stepping ? calls_ : beside_)[floor.label];
  calls.count += 1;
  calls.seconds += seconds;
  calls.flops += floor.flops;
  calls.bytes += floor.bytes;
  calls.dtype = floor.dtype;
}

void Profile::wait_begins(const char*) { nesting.begin(); }

void Profile::wait_ends(const char* what) {
  const double seconds = nesting.end();
  if (!nesting.stepping) return;
  const std::lock_guard lock(mutex_);
  waits_[what] += seconds;
}

StepTimes Profile::per_step() const {
  StepTimes out{0, sums(calls_), {}, 1e3 * between_ / steps_, sums(beside_)};
  for (const auto& [what, seconds] : waits_) out.wait_ms[what] = 1e3 * seconds / steps_;
  return out;
}

KernelSums Profile::sums(const std::map<std::string, Calls>& all) const {
  static const Ceilings ceilings;
  KernelSums out;
  for (const auto& [label, calls] : all) {
    // The ceiling of memory is that of one call's bytes.
    const double floor =
        ceilings.seconds(calls.flops / calls.count, calls.bytes / calls.count, calls.dtype);
    out[label] = {calls.count / steps_, 1e3 * calls.seconds / steps_,
                  1e3 * floor * calls.count / steps_};
  }
  return out;
}

std::string to_markdown(const StepTimes& times) {
  std::string out =
      "| kernel | calls | ms | % of the step | floor ms | time / floor |\n"
      "|---|---|---|---|---|---|\n";
  const auto line = [&](const std::string& label, const std::string& calls, double ms,
                        double floor) {
    out += fmt::format("| {} | {} | {:.2f} | {:.1f} | {:.2f} | {} |\n", label, calls, ms,
                       100 * ms / times.step_ms, floor,
                       floor > 0 ? fmt::format("{:.2f}", ms / floor) : "-");
  };
  double floor_ms = 0;
  for (const auto& [label, sum] : slowest_first(times.kernels)) {
    line(label, fmt::format("{:.0f}", sum.calls), sum.ms, sum.floor_ms);
    floor_ms += sum.floor_ms;
  }
  for (const auto& [what, ms] : times.wait_ms) line("waiting for " + what, "-", ms, 0);
  line("between kernels", "-", times.between_ms, 0);
  line("the step", "-", times.step_ms, floor_ms);
  if (!times.beside.empty())
    out += "\nAt the same time, on other threads:\n\n| kernel | calls | ms |\n|---|---|---|\n";
  for (const auto& [label, sum] : slowest_first(times.beside))
    out += fmt::format("| {} | {:.0f} | {:.2f} |\n", label, sum.calls, sum.ms);
  return out;
}

}  // namespace ringlet::bench
