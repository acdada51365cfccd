#include "profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ringlet::bench {
namespace {

std::vector<std::pair<std::string, KernelSum>> slowest_first(const KernelSums& sums) {
  std::vector<std::pair<std::string, KernelSum>> rows(sums.begin(), sums.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  return rows;
}

}  // namespace

void Calls::add(const Floor& floor, double seconds) {
  Sum& sum = all_[floor.label];
  sum.count += 1;
  sum.seconds += seconds;
  sum.floor.add(floor);
}

KernelSums Calls::per_step(double steps, const Ceilings& ceilings) const {
  KernelSums out;
  for (const auto& [label, sum] : all_) {
    // The memory ceiling for the bytes of one call.
    const double least =
        ceilings.seconds(sum.floor.flops / sum.count, sum.floor.bytes / sum.count, sum.floor.dtype);
    out[label] = {sum.count / steps, 1e3 * sum.seconds / steps, 1e3 * least * sum.count / steps};
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
