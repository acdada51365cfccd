// The machine of measurements, for `ringlet info --json` and the benches' reports: its devices, and
// whether copies between them arrive as they were sent, and how fast.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ringlet/core/io/json.h"
#include "ringlet/core/tensor/tensor.h"
#include "ringlet/cuda/info.h"

namespace ringlet::cli {

using Copy = std::function<void(Tensor& to, const Tensor& from)>;

/// Copies `numel` numbers that tell their places, and compares what has arrived: "from", "to",
/// "right", and "bytes_per_second" of the fastest copy, or else the "error".
Json check_link(
    Device from, Device to, std::int64_t numel = std::int64_t{1} << 24,
    const Copy& copy = [](Tensor& target, const Tensor& source) { target.copy_(source); });

/// From the host to every device of the type and back, and between any two of them; none where
/// there is no such device.
Json check_links(DeviceType type);

/// The commit of this build's source tree, with "-dirty" if it had other changes; "unknown" without
/// git.
std::string commit();

/// The value of the first line "KEY : VALUE" of /proc/cpuinfo; empty where there is none.
std::string cpuinfo(const std::string& key);

/// "cuda": versions, null in a build without CUDA, empty for missing libraries. "gpus": the name
/// and size of each, and which other GPUs it reads. "links": what check_links() found.
Json machine_json(const cuda::Info& info, Json links);

}  // namespace ringlet::cli
