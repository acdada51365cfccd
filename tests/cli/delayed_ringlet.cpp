// Linked into `ringlet` for its tests: devices that stand in for a GPU's, there before main().
#include "ringlet/tests/delayed_device.h"

namespace {

const ringlet::DelayedDevice devices;

}  // namespace
