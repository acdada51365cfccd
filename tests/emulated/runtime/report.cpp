// The counters of all kernels, written at exit to the file that RINGLET_EMULATED_REPORT names: one
// JSON object per kernel. scripts/emulated_report.py reads them.
#include "report.h"

#include <sys/file.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "../gpu/counters.h"

namespace ringlet::emulated {
namespace {

std::vector<const Kernel*>& kernels() {
  static auto* const all = new std::vector<const Kernel*>;
  return *all;
}

unsigned long long wide(std::uint64_t value) { return value; }

void write_classes(std::FILE* to, const LaunchCounters& counters) {
  const char* separator = "";
  std::fputs(",\"classes\":{", to);
  for (std::size_t i = 0; i < kInstructionClasses; ++i) {
    std::fprintf(to, "%s\"%s\":[%llu,%llu]", separator, kInstructionClassNames[i],
                 wide(counters.warps[i]), wide(counters.lanes[i]));
    separator = ",";
  }
  std::fputs("}", to);
}

void write_lines(std::FILE* to, const Kernel& kernel) {
  std::map<std::string, bool> lines;  // whether one of its instructions was executed
  for (std::size_t i = 0; i < kernel.code.size(); ++i)
    if (kernel.code[i].line.line != 0)
      lines[kernel.place(kernel.code[i])] |= kernel.counts[i].warps > 0;
  const char* separator = "";
  std::fputs(",\"lines\":{", to);
  for (const auto& [place, executed] : lines) {
    std::fprintf(to, "%s\"%s\":%d", separator, place.c_str(), executed ? 1 : 0);
    separator = ",";
  }
  std::fputs("}", to);
}

void write(std::FILE* to, const Kernel& kernel) {
  std::uint64_t executed = 0;
  std::map<std::string, std::uint64_t> opcodes;
  for (std::size_t i = 0; i < kernel.code.size(); ++i) {
    executed += kernel.counts[i].warps > 0;
    opcodes[kernel.names[kernel.code[i].name]] += kernel.counts[i].warps;
  }
  LaunchCounters counters;
  add_counts(counters, kernel, kernel.counts);
  std::fprintf(to,
               "{\"kernel\":\"%s\",\"launches\":%llu,\"instructions\":%zu,\"executed\":%llu,"
               "\"warps\":%llu,\"lanes\":%llu,\"registers\":%d,"
               "\"global\":{\"bytes\":%llu,\"moved\":%llu,\"least\":%llu,\"touched\":%llu},"
               "\"shared\":{\"moved\":%llu,\"least\":%llu}",
               kernel.name.c_str(), wide(kernel.launches), kernel.code.size(), wide(executed),
               wide(counters.warp_instructions()), wide(counters.lane_instructions()),
               kernel.registers, wide(counters.bytes), wide(counters.sectors),
               wide(counters.least_sectors), wide(counters.touched_sectors),
               wide(counters.bank_passes), wide(counters.least_passes));
  write_classes(to, counters);
  const char* separator = "";
  std::fputs(",\"opcodes\":{", to);
  for (const auto& [name, times] : opcodes) {
    if (times == 0) continue;
    std::fprintf(to, "%s\"%s\":%llu", separator, name.c_str(), wide(times));
    separator = ",";
  }
  std::fputs("}", to);
  write_lines(to, kernel);
  std::fputs("}\n", to);
}

void write_report() {
  const char* const path = std::getenv("RINGLET_EMULATED_REPORT");
  std::FILE* const to = path ? std::fopen(path, "a") : nullptr;
  if (!to) return;
  flock(fileno(to), LOCK_EX);  // until fclose(): tests run at the same time
  for (const Kernel* kernel : kernels()) write(to, *kernel);
  std::fclose(to);
}

}  // namespace

void report_at_exit(const Kernel& kernel) {
  static const bool registered = std::atexit(write_report) == 0;
  if (registered) kernels().push_back(&kernel);
}

}  // namespace ringlet::emulated
