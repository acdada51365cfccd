#include "tested.h"

#include <set>

#include "../ptx/decode.h"
#include "../runtime/ptx_files.h"

namespace ringlet::emulated {
namespace {

std::set<std::string>& tested() {
  static std::set<std::string> instructions;
  return instructions;
}

std::string instruction_of(const std::string& opcode) {
  auto parts = split(opcode, '.');
  std::erase_if(parts, [](const std::string& part) { return part == "cg" || part == "uni"; });
  const std::string& name = parts[0];
  char& kind = parts.back()[0];
  const bool moves = name == "ld" || name == "st" || name == "mov" || name == "selp";
  if (moves && (kind == 'u' || kind == 'f')) kind = 'b';
  std::string joined = name;
  for (std::size_t i = 1; i < parts.size(); ++i) joined += '.' + parts[i];
  return joined;
}

}  // namespace

void note_tested(const std::string& opcode) { tested().insert(instruction_of(opcode)); }

// Names without code belong to instructions that decoding resolves, such as calls.
void note_tested(const Kernel& kernel) {
  std::set<std::string> idle;
  for (const bool ran : {false, true})
    for (std::size_t i = 0; i < kernel.code.size(); ++i)
      if ((kernel.counts[i].warps > 0) == ran) {
        const std::string& name = kernel.names[kernel.code[i].name];
        ran ? void(idle.erase(name)) : void(idle.insert(name));
      }
  for (const std::string& name : kernel.names)
    if (!idle.contains(name)) note_tested(name);
}

std::map<std::string, std::string> untested() {
  std::map<std::string, std::string> missing;
  for (const std::string& text : ptx_texts()) {
    Module module(text);
    for (const std::string& kernel : module.kernel_names())
      for (const std::string& opcode : module.kernel(kernel).names)
        if (!tested().contains(instruction_of(opcode))) missing.emplace(opcode, kernel);
  }
  return missing;
}

}  // namespace ringlet::emulated
