// A device with graphs: a GPU or, if there is none, one of delayed_device.h.
#pragma once

#include <optional>

#include "../delayed_device.h"
#include "ringlet/core/tensor/random.h"
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
  models::EncoderConfig config = words::encoder_config(models::Architecture::mpnet);
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout;
  const GeneratorGuard guard({5, 0, 0});
  models::SentenceEncoder encoder(config, words::tokenizer());
  encoder.transformer()->to(device);
  return encoder;
}

}  // namespace ringlet
