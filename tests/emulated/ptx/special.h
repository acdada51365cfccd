// Special registers (PTX manual, chapter 10): thread and block indices, lane masks, the timer.
#pragma once

#include <string>

#include "../gpu/warp.h"

namespace ringlet::emulated {

struct SpecialRegister {
  Instruction::Run run = nullptr;
  std::uint8_t bytes = 4;
};

/// The register named like "%tid.x"; `run` is null if there is none.
SpecialRegister special_register(const std::string& name);

}  // namespace ringlet::emulated
