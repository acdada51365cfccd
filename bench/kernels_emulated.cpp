// The ops of a step on the emulated GPU: counters instead of times.
#include <fmt/format.h>

#include "emulated_counts.h"
#include "kernels_cases.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/tensor/random.h"

namespace ringlet::bench {
namespace {

std::string tsv_heading() {
  std::string line = "case\tkernel\tlaunches\tasked\tmoved\ttouched\tpasses\tleast_passes\tlanes";
  for (const char* name : emulated::kInstructionClassNames) line += fmt::format("\t{}", name);
  return line + '\n';
}

std::string tsv_row(const std::string& name, const std::string& kernel, const CounterSum& sum) {
  const emulated::LaunchCounters& counters = sum.counters;
  std::string line = fmt::format(
      "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", name, kernel, sum.launches, counters.bytes,
      counters.sectors * emulated::kSectorBytes, counters.touched_sectors * emulated::kSectorBytes,
      counters.bank_passes, counters.least_passes, counters.lane_instructions());
  for (const std::uint64_t warps : counters.warps) line += fmt::format("\t{}", warps);
  return line + '\n';
}

std::string count_case(const KernelCase& c, Device device) {
  manual_seed(1);
  KernelWork work = c.prepare();
  work.run(work.inputs);  // may convert weights, which a step does once
  OpCounters counters(device);
  work.run(work.inputs);
  std::string lines;
  for (const auto& [label, op] : counters.ops())
    for (const auto& [kernel, sum] : op.kernels) {
      fmt::print("{}",
                 counters_row(str(c.name, ": ", kernel), {op.calls, op.floor, {{kernel, sum}}}, 1));
      std::fflush(stdout);
      lines += tsv_row(c.name, kernel, sum);
    }
  return lines;
}

}  // namespace

void count_cases(const std::vector<KernelCase>& cases, Device device, const std::string& file) {
  fmt::print(
      "An emulated GPU: exact counts of PTX, no times. The last columns are *modelled*, not "
      "measured (bench/emulated_counts.h).\n\n{}",
      counters_heading());
  std::string lines = tsv_heading();
  for (const KernelCase& c : cases) lines += count_case(c, device);
  if (!file.empty()) write_file(file, lines);
}

}  // namespace ringlet::bench
