#include "emulated_counts.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "ringlet/core/device/device_time.h"
#include "ringlet/core/device/kernel.h"

namespace ringlet::bench {
namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double sector_bytes(std::uint64_t sectors) {
  return static_cast<double>(sectors * emulated::kSectorBytes);
}

using emulated::InstructionClass;
using emulated::LaunchCounters;

constexpr double kLaunchSeconds = 1e-6;
constexpr double kCacheBytes = 64, kIssued = 4, kLanes = 32;  // a clock and multiprocessor
constexpr double kMmaFlops = 2 * 16 * 8 * 16;                 // of one instruction

/// Operations a clock and multiprocessor; 0 for classes with no limit but the issue.
double operations(InstructionClass which, const DataSheet& gpu) {
  using Class = InstructionClass;
  if (which == Class::integer) return 64;
  if (which == Class::f32) return gpu.f32;
  if (which == Class::f64) return gpu.f64;
  if (which == Class::special) return 16;
  if (which == Class::conversion) return gpu.conversions;
  const bool moves = which == Class::shuffle || which == Class::global || which == Class::shared ||
                     which == Class::local;
  return moves ? 32 : 0;
}

/// Clocks of one multiprocessor, were all work its own.
double clocks(const LaunchCounters& launch, const DataSheet& gpu) {
  const auto count = [&](InstructionClass which) {
    return static_cast<double>(launch.warps[static_cast<std::size_t>(which)]);
  };
  double most = static_cast<double>(launch.bank_passes);
  most = std::max(most, static_cast<double>(launch.sectors * emulated::kSectorBytes) / kCacheBytes);
  const double issued =
      static_cast<double>(launch.warp_instructions()) - count(InstructionClass::move);
  most = std::max(most, issued / kIssued);
  for (std::size_t i = 0; i < emulated::kInstructionClasses; ++i) {
    const auto which = static_cast<InstructionClass>(i);
    if (const double each = operations(which, gpu); each > 0)
      most = std::max(most, count(which) * kLanes / each);
  }
  const double peak =
      launch.tensor_cores || count(InstructionClass::mma) > 0 ? gpu.tensor_flops : gpu.f32_flops;
  const double flops = static_cast<double>(launch.flops) + count(InstructionClass::mma) * kMmaFlops;
  return std::max(most, flops / (peak / gpu.multiprocessors / gpu.clock()));
}

class OpCounters final : public KernelObserver {
 public:
  explicit OpCounters(Device device) : device_(device) {
    synchronize(device);
    emulated::take_counters();
    emulated::count_launches(true);
    kernel_observer = this;
  }
  ~OpCounters() override {
    kernel_observer = nullptr;
    emulated::count_launches(false);
  }

  void before(const char*, const void*, Device device) override {
    if (device != device_ || depth_++ > 0) return;
    synchronize(device);
    emulated::take_counters();  // of launches that no op has made
  }
  void after(const char* name, const void* args, Device device) override {
    if (device != device_ || --depth_ > 0) return;
    synchronize(device);
    const auto launches = emulated::take_counters();
    const Floor floor = floor_of(name, args, device);
    emulated::take_counters();
    OpSum& op = ops[floor.label];
    ++op.calls;
    op.floor.add(floor);
    for (const LaunchCounters& launch : launches) op.kernels[short_name(launch.kernel)].add(launch);
  }

  OpSums ops;

 private:
  Device device_;
  int depth_ = 0;
};

// Ops that share a kernel, such as casts and sums, add up.
std::string kernels_table(const OpSums& ops, double steps) {
  OpSums kernels;
  for (const auto& [label, op] : ops)
    for (const auto& [name, sum] : op.kernels) {
      kernels[name].kernels[name].add(sum);
      kernels[name].calls += sum.launches;
    }
  return counters_table(kernels, steps);
}

/// Each step runs once, with a synchronisation after every op.
class EmulatedProfile final : public StepProfile {
 public:
  EmulatedProfile(Device device, double pairs) : device_(device), pairs_(pairs) {}

  void run(const std::function<void(bool again)>& step) override {
    for (const auto& [label, op] : count_ops(device_, [&] { step(false); })) ops_[label].add(op);
    ++steps_;
  }

  /// Prints; returns no times, since none was measured.
  StepTimes per_step() const override {
    CounterSum all;
    for (const auto& [label, op] : ops_) all.add(op.sum());
    fmt::print(
        "\nA step on the emulated GPU: exact counts of PTX; times are *modelled* "
        "(bench/emulated_counts.h), not measured.\n\n{}\nBy kernel:\n\n{}\n",
        counters_table(ops_, steps_), kernels_table(ops_, steps_));
    for (std::size_t i = 0; i < kDataSheets.size(); ++i)
      fmt::print("modelled, not measured: {} {:.3f} ms a step, {:.0f} pairs/s\n",
                 kDataSheets[i].name, 1e3 * all.seconds[i] / steps_,
                 pairs_ * steps_ / all.seconds[i]);
    std::fflush(stdout);
    return {};
  }

 private:
  Device device_;
  double pairs_;
  double steps_ = 0;
  OpSums ops_;
};

}  // namespace

double modelled_seconds(const LaunchCounters& launch, const DataSheet& gpu) {
  const double blocks = std::max<double>(1, static_cast<double>(launch.blocks));
  const double waves = std::ceil(blocks / gpu.multiprocessors);
  // A matrix product reads its operands more often than once, from its own shared memory.
  const double sectors = static_cast<double>(launch.touched_sectors);
  const double memory =
      sectors * static_cast<double>(emulated::kSectorBytes) / gpu.bytes_per_second;
  return kLaunchSeconds + std::max(memory, clocks(launch, gpu) * waves / blocks / gpu.clock());
}

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

void CounterSum::add(const LaunchCounters& launch) {
  CounterSum one;
  one.launches = 1;
  one.counters = launch;
  for (std::size_t i = 0; i < kDataSheets.size(); ++i)
    one.seconds[i] = modelled_seconds(launch, kDataSheets[i]);
  add(one);
}

void CounterSum::add(const CounterSum& other) {
  const LaunchCounters& from = other.counters;
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

OpSums count_ops(Device device, const std::function<void()>& run) {
  OpCounters counters(device);
  run();
  return std::move(counters.ops);
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
  const LaunchCounters& counters = sum.counters;
  const std::uint64_t lanes = 32 * counters.warp_instructions();
  const auto millions = [&](double count) { return count / 1e6 / steps; };
  std::string out = fmt::format(
      "| {} | {:.0f} | {:.0f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.4f} | {:.1f} | {:.1f} | {} "
      "| {} |",
      name, static_cast<double>(op.calls) / steps, static_cast<double>(sum.launches) / steps,
      millions(op.floor.bytes), millions(sector_bytes(counters.touched_sectors)),
      millions(sector_bytes(counters.sectors)), millions(static_cast<double>(counters.bytes)),
      millions(static_cast<double>(counters.warp_instructions())),
      100 * share(lanes - counters.lane_instructions(), lanes),
      100 * share(counters.bank_passes - counters.least_passes, counters.bank_passes),
      counters.registers, counters.resident_warps);
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

std::unique_ptr<StepProfile> emulated_profile(Device device, double pairs) {
  return std::make_unique<EmulatedProfile>(device, pairs);
}

}  // namespace ringlet::bench
