#include "ringlet/train/cli/existing_device.h"

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
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
  if (name == "cuda" && rank.world_size > 1) {
    // NCCL takes two processes of one GPU only where it is told that they are on two hosts.
    const int count = backend(device.type).device_count();
    if (rank.local_rank >= count && !comm::environment_variable("NCCL_HOSTID"))
      fail_input("--device cuda: local rank ", rank.local_rank, ": expected at most ", count,
                 " ranks on this host, one for each CUDA device");
    device.index = rank.gpu(count);
  }
  return device;
}

}  // namespace ringlet::cli
