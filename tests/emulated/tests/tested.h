// The instructions that cases have executed, and those of the build's kernels that none has.
#pragma once

#include <map>
#include <string>

#include "../ptx/program.h"

namespace ringlet::emulated {

void note_tested(const std::string& opcode);
/// Of all executed instructions.
void note_tested(const Kernel& kernel);

/// The instructions of the build's kernels that no case has executed, each with a kernel that has
/// it. Two are the same if their opcodes agree in all modifiers, with these exceptions: cache hints
/// and .uni change no result, and ld, st, mov and selp move the same bits of types b, u and f.
std::map<std::string, std::string> untested();

}  // namespace ringlet::emulated
