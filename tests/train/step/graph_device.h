// A device with graphs: a GPU or, if there is none, one of delayed_device.h.
#pragma once

#include <optional>

#include "../../delayed_device.h"
#include "../words.h"
#include "ringlet/ringlet.h"

namespace ringlet {

/// A device with graphs.
struct GraphDevice {
  GraphDevice() {
    if (!has_backend(DeviceType::cuda)) delayed.emplace();
  }
  std::optional<DelayedDevice> delayed;
  Device device{DeviceType::cuda, 0};
};

inline models::SentenceEncoder encoder_on(Device device, double dropout = 0,
                                          std::int64_t columns = 16) {
  models::EncoderConfig config = words::encoder_config(models::Architecture::mpnet);
  config.hidden_size = columns;
  config.intermediate_size = columns == 16 ? 32 : 4 * columns;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout;
  const GeneratorGuard guard({5, 0, 0});
  models::SentenceEncoder encoder(config, words::tokenizer());
  encoder.transformer()->to(device);
  return encoder;
}

/// A loss for each of two data sets: a classifier of three, and `Second` with the arguments.
template <class Second, class... Arguments>
std::shared_ptr<models::MultiLoss> two_losses(const models::SentenceEncoder& encoder,
                                              Arguments... arguments) {
  const GeneratorGuard guard({6, 0, 0});
  using Losses = std::vector<std::shared_ptr<models::Loss>>;
  const auto first = std::make_shared<models::SoftmaxLoss>(encoder, 3);
  return std::make_shared<models::MultiLoss>(
      encoder.modules(), Losses{first, std::make_shared<Second>(encoder, arguments...)});
}

}  // namespace ringlet
