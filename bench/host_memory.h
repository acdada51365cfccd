// What the rows of a table take of a host's memory, before any of them is made.
#pragma once

#include <vector>

#include "ringlet/models/config.h"
#include "runner.h"

namespace ringlet::bench {

/// Weights of all layers, embeddings left out.
double layer_parameters(const models::EncoderConfig& config);
/// InputError where weights, gradients and moments of a row's devices, of which `share_here` are on
/// this host, are more than it has available.
void check_memory(const std::vector<Plan>& plans, const models::EncoderConfig& config,
                  double share_here);

}  // namespace ringlet::bench
