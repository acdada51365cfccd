#include "emulated_counts.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "ringlet/core/device/device_time.h"

namespace ringlet::bench {
namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double sector_bytes(std::uint64_t sectors) {
  return static_cast<double>(sectors * emulated::kSectorBytes);
}

}  // namespace

std::string short_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  if (status != 0) return mangled;
  std::string name = plain.get();
  if (name.starts_with("void ")) name.erase(0, 5);
  for (const std::string_view noise : {"(anonymous namespace)::", "ringlet::cuda::", "ringlet::",
                                       "(int)", "(bool)", "(long)", "(unsigned int)"})
    for (std::size_t at = 0; (at = name.find(noise, at)) != name.npos;)
      name.erase(at, noise.size());
  std::size_t at = name.size();
  for (int depth = 0; at > 0;) {  // back to the bracket that opens the parameters
    depth += name[--at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
    if (depth == 0) break;
  }
  return name.substr(0, at);
}

bool is_emulated(Device device) {
  return emulated::count_launches != nullptr && device.type == DeviceType::cuda;
}

void CounterSum::add(const emulated::LaunchCounters& launch) {
  CounterSum one;
  one.launches = 1;
  one.counters = launch;
  for (std::size_t i = 0; i < kDataSheets.size(); ++i)
    one.seconds[i] = modelled_seconds(launch, kDataSheets[i]);
  add(one);
}

void CounterSum::add(const CounterSum& other) {
  const emulated::LaunchCounters& from = other.counters;
  counters.resident_warps =
      launches == 0 ? from.resident_warps : std::min(counters.resident_warps, from.resident_warps);
  launches += other.launches;
  counters.registers = std::max(counters.registers, from.registers);
  counters.bytes += from.bytes, counters.sectors += from.sectors;
  counters.touched_sectors += from.touched_sectors;
  counters.bank_passes += from.bank_passes, counters.least_passes += from.least_passes;
  for (std::size_t i = 0; i < emulated::kInstructionClasses; ++i)
    counters.warps[i] += from.warps[i], counters.lanes[i] += from.lanes[i];
  for (std::size_t i = 0; i < kDataSheets.size(); ++i) seconds[i] += other.seconds[i];
}

double CounterSum::idle_lanes() const {
  const std::uint64_t all = 32 * counters.warp_instructions();
  return share(all - counters.lane_instructions(), all);
}
double CounterSum::bank_conflicts() const {
  return share(counters.bank_passes - counters.least_passes, counters.bank_passes);
}

OpCounters::OpCounters(Device device) : device_(device) {
  synchronize(device);
  emulated::take_counters();
  emulated::count_launches(true);
  kernel_observer = this;
}

OpCounters::~OpCounters() {
  kernel_observer = nullptr;
  emulated::count_launches(false);
}

void OpCounters::before(const char*, const void*, Device device) {
  if (device != device_ || depth_++ > 0) return;
  synchronize(device);
  emulated::take_counters();  // of launches that no op has made
}

void OpCounters::after(const char* name, const void* args, Device device) {
  if (device != device_ || --depth_ > 0) return;
  synchronize(device);
  const auto launches = emulated::take_counters();
  const Floor floor = floor_of(name, args, device);
  emulated::take_counters();
  OpSum& op = ops_[floor.label];
  ++op.calls;
  op.floor.add(floor);
  for (const emulated::LaunchCounters& launch : launches)
    op.kernels[short_name(launch.kernel)].add(launch);
}

CounterSum OpSum::sum() const {
  CounterSum all;
  for (const auto& [name, kernel] : kernels) all.add(kernel);
  return all;
}

void OpSum::add(const OpSum& other) {
  calls += other.calls;
  floor.add(other.floor);
  for (const auto& [name, sum] : other.kernels) kernels[name].add(sum);
}

std::string counters_heading() {
  std::string out =
      "| op | calls | launches | MB it must | MB touched | MB moved | MB asked | M warp instr. | "
      "idle lanes % | bank conflicts % | registers | resident warps |";
  for (const DataSheet& gpu : kDataSheets) out += fmt::format(" modelled us, {} |", gpu.name);
  return out + "\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
}

std::string counters_row(const std::string& name, const OpSum& op, double steps) {
  const CounterSum sum = op.sum();
  const emulated::LaunchCounters& counters = sum.counters;
  const auto millions = [&](double count) { return count / 1e6 / steps; };
  std::string out = fmt::format(
      "| {} | {:.0f} | {:.0f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.4f} | {:.1f} | {:.1f} | {} "
      "| {} |",
      name, static_cast<double>(op.calls) / steps, static_cast<double>(sum.launches) / steps,
      millions(op.floor.bytes), millions(sector_bytes(counters.touched_sectors)),
      millions(sector_bytes(counters.sectors)), millions(static_cast<double>(counters.bytes)),
      millions(static_cast<double>(counters.warp_instructions())), 100 * sum.idle_lanes(),
      100 * sum.bank_conflicts(), counters.registers, counters.resident_warps);
  for (const double seconds : sum.seconds) out += fmt::format(" {:.2f} |", 1e6 * seconds / steps);
  return out + '\n';
}

std::string counters_table(const OpSums& ops, double steps) {
  std::vector<std::pair<std::string, OpSum>> rows(ops.begin(), ops.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.sum().seconds.back() > b.second.sum().seconds.back();
  });
  OpSum all;
  std::string out = counters_heading();
  for (const auto& [name, op] : rows) {
    out += counters_row(name, op, steps);
    all.add(op);
  }
  return out + counters_row("all", all, steps);
}

}  // namespace ringlet::bench
