#include "counters.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace ringlet::emulated {
namespace {

struct KeptCounters {
  std::mutex mutex;
  bool wanted = false;
  std::vector<LaunchCounters> launches;
};
// Never destroyed: launches may end with the program.
KeptCounters& kept_counters() {
  static auto* const kept = new KeptCounters;
  return *kept;
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

InstructionClass class_of_access(const std::string& opcode) {
  const auto has = [&](const char* part) { return opcode.find(part) != std::string::npos; };
  if (has(".param")) return InstructionClass::move;
  return has(".shared")  ? InstructionClass::shared
         : has(".local") ? InstructionClass::local
                         : InstructionClass::global;
}

}  // namespace

// Moves and parameters are operands in the GPU's own code: ptxas emits no instruction for most.
InstructionClass class_of(const std::string& opcode) {
  const std::string name = opcode.substr(0, opcode.find('.'));
  const auto has = [&](const char* part) { return opcode.find(part) != std::string::npos; };
  if (is_one_of(name, {"bra", "ret", "exit", "call"})) return InstructionClass::control;
  if (is_one_of(name, {"bar", "membar", "fence"})) return InstructionClass::barrier;
  if (name == "ldmatrix") return InstructionClass::shared;
  if (name == "cp") return has(".global") ? InstructionClass::global : InstructionClass::barrier;
  if (is_one_of(name, {"ld", "st", "atom", "red"})) return class_of_access(opcode);
  if (is_one_of(name, {"mov", "cvta"})) return InstructionClass::move;
  if (is_one_of(name, {"shfl", "vote", "match"})) return InstructionClass::shuffle;
  if (name == "mma") return InstructionClass::mma;
  const bool floats = has(".f32") || has(".bf16") || has(".f16");
  if (name == "cvt")
    return floats || has(".f64") ? InstructionClass::conversion : InstructionClass::integer;
  if (has(".f64")) return InstructionClass::f64;
  if (is_one_of(name, {"ex2", "lg2", "sin", "cos", "tanh", "rcp", "sqrt", "rsqrt", "div"}) &&
      floats)
    return InstructionClass::special;
  return floats ? InstructionClass::f32 : InstructionClass::integer;
}

void add_counts(LaunchCounters& to, const Kernel& kernel, const std::vector<Count>& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Count& count = counts[i];
    const Instruction& at = kernel.code[i];
    const auto which = static_cast<std::size_t>(kernel.classes[at.name]);
    to.warps[which] += count.warps;
    to.lanes[which] += count.lanes;
    to.bank_passes += count.passes, to.least_passes += count.least_passes;
    to.bytes += count.bytes, to.sectors += count.sectors;
    to.least_sectors += count.least, to.touched_sectors += count.touched;
  }
}

bool counts_traffic() {
  static const bool reported = std::getenv("RINGLET_EMULATED_REPORT") != nullptr;
  return reported || kept_counters().wanted;
}

void keep_counters(LaunchCounters counters) {
  KeptCounters& kept = kept_counters();
  const std::lock_guard lock(kept.mutex);
  if (kept.wanted) kept.launches.push_back(std::move(counters));
}

void count_launches(bool wanted) { kept_counters().wanted = wanted; }

std::vector<LaunchCounters> take_counters() {
  KeptCounters& kept = kept_counters();
  const std::lock_guard lock(kept.mutex);
  return std::exchange(kept.launches, {});
}

}  // namespace ringlet::emulated
