// The instructions that cases have executed, and those of the build's kernels that none has.
#pragma once

#include <map>
#include <string>

#include "../ptx/program.h"

namespace ringlet::emulated {

void note_tested(const std::string& opcode);
/// Notes the opcodes of all executed instructions.
void note_tested(const Kernel& kernel);

/// The instructions of the build's kernels that no case has executed, each with a kernel that has
/// it. The same instruction has the same opcode with all modifiers. Exceptions are cache hints,
/// .uni, and types b, u and f of ld, st, mov and selp: results do not depend on them.
std::map<std::string, std::string> untested();

}  // namespace ringlet::emulated
