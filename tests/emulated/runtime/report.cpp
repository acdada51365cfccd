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

namespace ringlet::emulated {
namespace {

std::vector<const Kernel*>& kernels() {
  static auto* const all = new std::vector<const Kernel*>;
  return *all;
}

struct Traffic {
  std::uint64_t bytes = 0, sectors = 0, least = 0;

  void add(const Count& count) {
    bytes += count.bytes, sectors += count.sectors, least += count.least;
  }
};

void write_traffic(std::FILE* to, const char* name, const Traffic& traffic) {
  std::fprintf(to, ",\"%s\":{\"bytes\":%llu,\"moved\":%llu,\"least\":%llu}", name,
               static_cast<unsigned long long>(traffic.bytes),
               static_cast<unsigned long long>(traffic.sectors),
               static_cast<unsigned long long>(traffic.least));
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
  std::uint64_t warps = 0, lanes = 0, executed = 0;
  std::map<std::string, std::uint64_t> classes;
  Traffic global, shared;
  for (std::size_t i = 0; i < kernel.code.size(); ++i) {
    const Count& count = kernel.counts[i];
    const Instruction& at = kernel.code[i];
    warps += count.warps, lanes += count.lanes, executed += count.warps > 0;
    classes[kernel.names[at.name]] += count.warps;
    (at.access.space == Space::shared ? shared : global).add(count);
  }
  std::fprintf(to,
               "{\"kernel\":\"%s\",\"launches\":%llu,\"instructions\":%zu,\"executed\":%llu,"
               "\"warps\":%llu,\"lanes\":%llu",
               kernel.name.c_str(), static_cast<unsigned long long>(kernel.launches),
               kernel.code.size(), static_cast<unsigned long long>(executed),
               static_cast<unsigned long long>(warps), static_cast<unsigned long long>(lanes));
  write_traffic(to, "global", global);
  write_traffic(to, "shared", shared);
  const char* separator = "";
  std::fputs(",\"opcodes\":{", to);
  for (const auto& [name, times] : classes) {
    if (times == 0) continue;
    std::fprintf(to, "%s\"%s\":%llu", separator, name.c_str(),
                 static_cast<unsigned long long>(times));
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
