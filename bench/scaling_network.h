// The data that an encoder's devices exchange, from its shape.
#pragma once

#include "ringlet/models/config.h"
#include "scaling_model.h"

namespace ringlet::bench {

/// Gradients of `element_bytes` per element. `rows` of the word embedding are read by one device's
/// batch; 0: the whole gradient is sent.
Network network_of(const models::EncoderConfig& config, double element_bytes, double rows);

}  // namespace ringlet::bench
