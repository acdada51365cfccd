// Linked into `ringlet` for its tests: emulated GPUs of one host, created before main(). As with
// the driver, CUDA_VISIBLE_DEVICES lists the visible ones, "2,0".
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "ringlet/tests/delayed_device.h"

namespace {

std::vector<std::string> visible_bus_ids() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream numbers(visible ? visible : "0,1,2,3");
  std::vector<std::string> ids;
  for (std::string number; std::getline(numbers, number, ',');)
    ids.push_back("0000:0" + number + ":00.0");
  return ids;
}

// Never destroyed: after an error work is in flight at exit, when the CPU's threads have ended.
[[maybe_unused]] const auto* const devices = new ringlet::DelayedDevice(1, visible_bus_ids());

}  // namespace
