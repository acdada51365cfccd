#include "ringlet/train/cli/existing_device.h"

#include "ringlet/comm/environment.h"
#include "ringlet/core/backend.h"
#include "ringlet/core/error.h"

namespace ringlet::cli {

Device existing_device(const std::string& name) {
  Device device = Device::parse(name);
  if (!has_backend(device.type)) fail_input("--device ", name, ": ", no_device(device.type));
  if (device.type == DeviceType::cuda && device.index >= backend(device.type).device_count())
    fail_input("--device ", name, ": there are ", backend(device.type).device_count(),
               " CUDA devices, the first is cuda:0");
  const comm::Environment rank = comm::Environment::read();
  if (name == "cuda" && rank.world_size > 1)
    device.index = rank.gpu(backend(device.type).device_count());
  return device;
}

}  // namespace ringlet::cli
