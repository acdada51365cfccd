// The machine of measurements, for `ringlet info --json` and the benches' reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ringlet/cuda/info.h"
#include "ringlet/train/cli/links.h"

namespace ringlet::cli {

/// The commit of this build's source tree, with "-dirty" if it had other changes; "unknown" without
/// git.
std::string commit();

/// The name and size of each GPU, and which other GPUs it reads.
nlohmann::ordered_json gpus_json(const cuda::Info& info);
/// Null in a build without CUDA; versions of missing libraries are empty.
nlohmann::ordered_json versions_json(const cuda::Info& info);
nlohmann::ordered_json links_json(const std::vector<Link>& links);

/// All of these: "cuda", "gpus", "links".
nlohmann::ordered_json machine_json(const cuda::Info& info, const std::vector<Link>& links);

}  // namespace ringlet::cli
