#include "shadow.h"

namespace ringlet::emulated {

std::string describe(const Stamp& stamp, const Actor& other) {
  std::string text = "thread " + std::to_string(stamp.thread);
  if (stamp.operation != other.operation || stamp.block != other.block)
    text += " of block " + std::to_string(stamp.block);
  if (stamp.operation != other.operation)
    text += " of operation " + std::to_string(stamp.operation);
  return text;
}

}  // namespace ringlet::emulated
