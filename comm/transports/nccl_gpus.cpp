#include "ringlet/comm/transports/nccl_gpus.h"

#include <sstream>

#include "ringlet/comm/host.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"

namespace ringlet::comm {
namespace {

// A field a line: no host's name has a line's end.
std::string to_text(const GpuPlace& place) {
  return str(place.bus_id, '\n', place.device, '\n', place.host, '\n', place.host_id, '\n');
}
GpuPlace gpu_place_of(const std::string& text) {
  std::istringstream lines(text);
  GpuPlace place;
  for (std::string* field : {&place.bus_id, &place.device, &place.host, &place.host_id})
    std::getline(lines, *field);
  return place;
}

bool may_share() { return environment_variable("NCCL_MULTI_RANK_GPU_ENABLE").value_or("0") != "0"; }

}  // namespace

// Containers of one host have names of their own, by which NCCL takes them for several.
GpuPlace gpu_place(Device device) {
  const std::string host = host_name();
  return {may_share() ? "" : backend(device.type).bus_id(device), str(device), host,
          environment_variable("NCCL_HOSTID").value_or(host + ' ' + boot_id())};
}

std::string shared_gpu(const std::vector<GpuPlace>& ranks, const std::vector<int>& names) {
  const auto name = [&](std::size_t rank) {
    return names.empty() ? static_cast<int>(rank) : names[rank];
  };
  for (std::size_t second = 1; second < ranks.size(); ++second)
    for (std::size_t first = 0; first < second; ++first) {
      const GpuPlace &a = ranks[first], &b = ranks[second];
      if (a.bus_id.empty() || a.bus_id != b.bus_id || a.host_id != b.host_id) continue;
      return str("rank ", name(first), " (on its ", a.device, ") and rank ", name(second),
                 " (on its ", b.device, ") share the GPU ", a.bus_id, " of ", b.host,
                 ", and nccl takes one rank of each: expected at most as many ranks on a host as "
                 "it has GPUs, and a CUDA_VISIBLE_DEVICES that shows no GPU to two of them");
    }
  return "";
}

void check_gpus(const Membership& membership, const GpuPlace& mine) {
  std::vector<GpuPlace> ranks;
  for (const std::string& theirs : membership.gather("the GPU of ", to_text(mine)))
    ranks.push_back(gpu_place_of(theirs));
  if (const std::string shared = shared_gpu(ranks, membership.names); !shared.empty())
    fail_input("[group] ", membership.id, ": ", shared);
}

}  // namespace ringlet::comm
