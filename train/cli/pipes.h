// Inputs that can be read only once: pipes and standard input.
#pragma once

#include <string>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::cli {

/// Reads those of `files` that come only once, on rank 0, and keeps their bytes on all ranks
/// (kept_input.h). Empty names are none. Call it on every rank before the files are opened.
void read_pipes(const std::vector<std::string>& files, const comm::Group& world);

/// The same for one process of a job without a group: InputError if `readers`, its ranks, are
/// several.
void read_pipe(const std::string& option, const std::string& file, int readers);

}  // namespace ringlet::cli
