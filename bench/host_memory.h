// The host memory that the rows of a table need, checked before any row is created.
#pragma once

#include <vector>

#include "ringlet/models/config.h"
#include "runner.h"

namespace ringlet::bench {

/// Weights of all layers, without embeddings.
double layer_parameters(const models::EncoderConfig& config);
/// InputError if the host has too little memory for weights, gradients and moments of a row's
/// devices. `share_here`: the share of these devices on this host.
void check_memory(const std::vector<Plan>& plans, const models::EncoderConfig& config,
                  double share_here);

}  // namespace ringlet::bench
