// What figures are measured on, as `ringlet info --json` and the benches' reports have it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ringlet/cuda/info.h"
#include "ringlet/train/cli/links.h"

namespace ringlet::cli {

/// Of the tree that this was built from, with "-dirty" where it had other changes; "unknown" where
/// there was no git.
std::string commit();

/// Of each GPU its name, size and which others it reads.
nlohmann::ordered_json gpus_json(const cuda::Info& info);
/// Null in a build without CUDA; versions are empty where there is nothing.
nlohmann::ordered_json versions_json(const cuda::Info& info);
nlohmann::ordered_json links_json(const std::vector<Link>& links);

/// All of these: "cuda", "gpus", "links".
nlohmann::ordered_json machine_json(const cuda::Info& info, const std::vector<Link>& links);

}  // namespace ringlet::cli
