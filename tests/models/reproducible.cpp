#include <doctest/doctest.h>

#include "../second_device.h"
#include "oracle_batch.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/core/threads/parallel.h"
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

namespace {

std::vector<std::vector<float>> step(const std::string& name, DType dtype, int threads) {
  const GeneratorGuard random({.seed = 7, .step = 3});
  const SentenceEncoder encoder = with_dropout(name);
  encoder.transformer()->set_compute_dtype(dtype);
  SoftmaxLoss loss(encoder, 3);
  set_threads_per_device(threads);
  auto all = bits_of(loss_and_gradients(loss, pair_batch(Oracle(name), 0)));
  set_threads_per_device(0);
  return all;
}

}  // namespace

TEST_CASE("loss and gradients have the same bits run to run, on any number of threads") {
  for (const char* name : {"bert", "mpnet"})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(name);
      CAPTURE(dtype);
      const auto expected = step(name, dtype, 1);
      CHECK(expected.size() > 20);
      for (const int threads : {1, 2, 3, 7}) {
        CAPTURE(threads);
        CHECK(step(name, dtype, threads) == expected);
      }
    }
}
