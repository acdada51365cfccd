// The machine of measurements, for `ringlet info --json` and the benches' reports.
#pragma once

#include <string>
#include <vector>

#include "ringlet/core/io/json.h"
#include "ringlet/cuda/info.h"
#include "ringlet/train/cli/links.h"

namespace ringlet::cli {

/// The commit of this build's source tree, with "-dirty" if it had other changes; "unknown" without
/// git.
std::string commit();

/// The value of the first line "KEY : VALUE" of /proc/cpuinfo; empty where there is none.
std::string cpuinfo(const std::string& key);

/// "cuda": versions, null in a build without CUDA, empty for missing libraries. "gpus": the name
/// and size of each, and which other GPUs it reads. "links": what check_links() found.
Json machine_json(const cuda::Info& info, const std::vector<Link>& links);

}  // namespace ringlet::cli
