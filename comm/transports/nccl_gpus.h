// Which GPU each rank has. NCCL accepts one rank per GPU of a host; its own error for two names
// neither the reason nor the remedy.
#pragma once

#include <string>
#include <vector>

#include "ringlet/comm/membership.h"

namespace ringlet::comm {

/// A rank's GPU, identified as NCCL does.
struct GpuPlace {
  std::string bus_id;  // empty: not known, or two ranks of it are no matter
  std::string device;  // what the rank calls it: "cuda:0"
  std::string host;    // its name, for people
  std::string host_id;
};

/// The GPU of this process. Different values of NCCL_HOSTID are different hosts.
/// NCCL_MULTI_RANK_GPU_ENABLE (NCCL 2.30) lets ranks share a GPU.
GpuPlace gpu_place(Device device);
/// Which two ranks have the same GPU, and what to do; empty where each has its own. `names` are
/// those of the ranks, unless empty.
std::string shared_gpu(const std::vector<GpuPlace>& ranks, const std::vector<int>& names = {});
/// All ranks of the group call it; InputError on each where two share a GPU.
void check_gpus(const Membership& membership, const GpuPlace& mine);

}  // namespace ringlet::comm
