#include "ringlet/train/cli/existing_device.h"

#include <fmt/format.h>

#include "ringlet/comm/environment.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/train/cli/command.h"

namespace ringlet::cli {

Device existing_device(const std::string& name) {
  Device device = of_option("--device", [&] { return Device::parse(name); });
  if (!has_backend(device.type)) fail_input("--device ", name, ": ", no_device(device.type));
  if (device.type == DeviceType::cuda && device.index >= backend(device.type).device_count())
    fail_input("--device ", name, ": there are ", backend(device.type).device_count(),
               " CUDA devices, the first is cuda:0");
  const comm::Environment rank = comm::Environment::read();
  if (name != "cuda" || rank.world_size <= 1) return device;
  const int count = backend(device.type).device_count();
  device.index = rank.gpu(count);
  // One that sees few of several may be shown another than its neighbours.
  if (rank.local_rank == count && count > 1)
    fmt::print(
        stderr,
        "--device {}: the ranks of this host are more than the {} CUDA devices that they see, and "
        "share them\n",
        name, count);
  return device;
}

}  // namespace ringlet::cli
