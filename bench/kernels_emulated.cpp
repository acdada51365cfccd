// The ops of a step on the emulated GPU: counters instead of times.
#include <fmt/format.h>

#include "emulated_counts.h"
#include "kernels_cases.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/tensor/random.h"

namespace ringlet::bench {
namespace {

std::uint64_t bytes_of_sectors(std::uint64_t sectors) { return sectors * emulated::kSectorBytes; }

std::string heading() {
  std::string line = "case\tkernel\tlaunches\tasked\tmoved\ttouched\tpasses\tleast_passes\tlanes";
  for (const char* name : emulated::kInstructionClassNames) line += fmt::format("\t{}", name);
  return line + '\n';
}

std::string row(const std::string& name, const std::string& kernel, const CounterSum& sum) {
  const emulated::LaunchCounters& counters = sum.counters;
  std::string line =
      fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", name, kernel, sum.launches, counters.bytes,
                  bytes_of_sectors(counters.sectors), bytes_of_sectors(counters.touched_sectors),
                  counters.bank_passes, counters.least_passes, counters.lane_instructions());
  for (const std::uint64_t warps : counters.warps) line += fmt::format("\t{}", warps);
  return line + '\n';
}

void print_kernel(const std::string& name, const std::string& kernel, const CounterSum& sum) {
  const emulated::LaunchCounters& counters = sum.counters;
  const auto mb = [](std::uint64_t sectors) {
    return static_cast<double>(bytes_of_sectors(sectors)) / 1e6;
  };
  fmt::print(
      "| {} | {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.4f} | {:.1f} | {:.1f} | {} | {} | {:.2f} |\n",
      name, kernel, sum.launches, static_cast<double>(counters.bytes) / 1e6, mb(counters.sectors),
      mb(counters.touched_sectors), static_cast<double>(counters.warp_instructions()) / 1e6,
      100 * sum.idle_lanes(), 100 * sum.bank_conflicts(), counters.registers,
      counters.resident_warps, 1e6 * sum.seconds.back());
  std::fflush(stdout);
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
      print_kernel(c.name, kernel, sum);
      lines += row(c.name, kernel, sum);
    }
  return lines;
}

}  // namespace

void count_cases(const std::vector<KernelCase>& cases, Device device, const std::string& file) {
  fmt::print(
      "An emulated GPU: exact counts of PTX, no times. The last column is *modelled*, not "
      "measured (bench/modelled_time.h).\n\n"
      "| case | kernel | launches | MB asked | MB moved | MB touched | M warp instr. | idle lanes "
      "% | bank conflicts % | registers | resident warps | modelled us, {} |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      kH200.name);
  std::string lines;
  for (const KernelCase& c : cases) lines += count_case(c, device);
  if (!file.empty()) write_file(file, heading() + lines);
}

}  // namespace ringlet::bench
