// One attempt of a job on this node: starts the ranks, watches them, and ends them together.
#pragma once

#include "ringlet/comm/launcher/nodes.h"

namespace ringlet::comm {

/// Returns once this node's ranks have ended and, unless the job has failed, those of all nodes.
JobEnd run_attempt(Job& job, int attempt);

}  // namespace ringlet::comm
