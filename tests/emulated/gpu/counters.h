// Instruction classes, and the counters of a launch.
#pragma once

#include <string>
#include <vector>

#include "../emulated.h"
#include "../ptx/program.h"

namespace ringlet::emulated {

/// The class of an opcode with its modifiers, such as "ld.global.f32".
InstructionClass class_of(const std::string& opcode);

/// Adds the counts of a kernel's instructions, one Count for each.
void add_counts(LaunchCounters& to, const Kernel& kernel, const std::vector<Count>& counts);

/// Whether launches count their memory traffic, which takes time.
bool counts_traffic();
/// Keeps the counters for take_counters(), if count_launches(true) was called.
void keep_counters(LaunchCounters counters);

}  // namespace ringlet::emulated
