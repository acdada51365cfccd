#include "scaling_network.h"

namespace ringlet::bench {

Network network_of(const models::EncoderConfig& config, double element_bytes, double rows) {
  const auto h = static_cast<double>(config.hidden_size);
  const auto i = static_cast<double>(config.intermediate_size);
  Network network;
  network.layers = static_cast<int>(config.num_hidden_layers);
  // Four projections, two of the feed-forward network, their biases, two LayerNorms.
  network.layer_bytes = element_bytes * (4 * h * h + 2 * h * i + 9 * h + i);
  network.table_bytes = element_bytes * h * static_cast<double>(config.vocab_size);
  network.row_bytes = element_bytes * h * rows;
  // Positions, token types, one LayerNorm.
  network.rest_bytes =
      element_bytes * h *
      static_cast<double>(config.max_position_embeddings + config.type_vocab_size + 2);
  return network;
}

}  // namespace ringlet::bench
