// An encoder with layers on several devices of one process.
#include <doctest/doctest.h>

#include "../second_device.h"
#include "oracle_batch.h"
#include "ringlet/nn/place.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

std::vector<std::vector<float>> step(const std::string& name, const std::vector<nn::Place>& places,
                                     bool checkpointing) {
  const GeneratorGuard random({.seed = 7, .step = 3});
  const SentenceEncoder encoder = with_dropout(name);
  encoder.transformer()->set_checkpointing(checkpointing);
  nn::place(*encoder.transformer(), places);
  SoftmaxLoss loss(encoder, 3);
  return bits_of(loss_and_gradients(loss, pair_batch(Oracle(name), 0)));
}

}  // namespace

TEST_CASE("layers on several devices: loss and gradients have the bits of one") {
  const Device there = second_device();
  for (const char* name : {"bert", "mpnet"})
    for (const bool checkpointing : {false, true}) {
      CAPTURE(name);
      CAPTURE(checkpointing);
      const auto expected = step(name, {}, checkpointing);
      for (const char* layers : {"layer.0", "layer.1", "layer.*"}) {
        CAPTURE(layers);
        CHECK(step(name, {{layers, there}}, checkpointing) == expected);
      }
    }
}

TEST_CASE("an encoder with layers on several devices encodes as on one") {
  const SentenceEncoder encoder = load("mpnet");
  const std::vector<std::string> texts = oracle_sentences();
  const std::vector<float> expected = encoder.encode(texts).to_vector();
  nn::place(*encoder.transformer(), {{"layer.1", second_device()}});
  CHECK(encoder.encode(texts).to_vector() == expected);
}
