// Where steps are captured: a GPU or, where there is none, one of delayed_device.h.
#pragma once

#include <optional>

#include "../delayed_device.h"
#include "ringlet/models/sentence_encoder.h"
#include "words.h"

namespace ringlet {

/// A device with graphs.
struct GraphDevice {
  GraphDevice() {
    if (!has_backend(DeviceType::cuda)) delayed.emplace();
  }
  std::optional<DelayedDevice> delayed;
  Device device{DeviceType::cuda, 0};
};

inline models::SentenceEncoder encoder_on(Device device, double dropout = 0) {
  models::EncoderConfig config;
  config.architecture = models::Architecture::mpnet;
  config.vocab_size = 9;
  config.hidden_size = 16;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 32;
  config.max_position_embeddings = 16;
  config.pad_token_id = 0;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout;
  const GeneratorGuard guard({5, 0, 0});
  models::SentenceEncoder encoder(config, words::tokenizer());
  encoder.transformer()->to(device);
  return encoder;
}

}  // namespace ringlet
