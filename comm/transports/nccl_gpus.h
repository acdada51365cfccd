// Which GPU each rank has: NCCL takes one rank of each GPU of a host, and where there are two its
// own words say neither why nor what to do.
#pragma once

#include <string>
#include <vector>

#include "ringlet/comm/transport.h"

namespace ringlet::comm {

/// A rank's GPU, told apart from others as NCCL does.
struct GpuPlace {
  std::string bus_id;  // empty: not known, or two ranks of it are no matter
  std::string device;  // what the rank calls it: "cuda:0"
  std::string host;    // its name, for people
  std::string host_id;
};

/// Of this process. Hosts are two where NCCL_HOSTID says so, and NCCL_MULTI_RANK_GPU_ENABLE (of
/// 2.30) lets ranks share.
GpuPlace gpu_place(Device device);
/// Which two ranks have the same GPU, and what to do; empty where each has its own.
std::string shared_gpu(const std::vector<GpuPlace>& ranks);
/// All ranks of the group call it; InputError on each where two share a GPU.
void check_gpus(const Membership& membership, const GpuPlace& mine);

}  // namespace ringlet::comm
