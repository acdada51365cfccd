// Models and batches of the oracles (tests/oracles/README.md).
#pragma once

#include <algorithm>
#include <cmath>
#include <fstream>

#include "../oracle.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/models/sentence_encoder.h"

namespace ringlet::models {

/// The families that have an oracle.
inline constexpr const char* kFamilies[] = {"bert", "mpnet", "xlmr", "roberta", "distilbert"};

inline SentenceEncoder load(const std::string& name) {
  return SentenceEncoder::from_pretrained(oracle_folder() + "/" + name);
}

// The losses' oracles use the mean of the tokens without normalisation.
inline SentenceEncoder load_unnormalized(const std::string& name) {
  const SentenceEncoder encoder = load(name);
  return {encoder.transformer(), encoder.tokenizer()};
}

/// One of its size from random weights, with dropout.
inline SentenceEncoder with_dropout(const std::string& name) {
  EncoderConfig config = load(name).config();
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1;
  return {config, load(name).tokenizer()};
}

/// The loss of a batch, and the gradient of each parameter after it.
inline NamedTensors loss_and_gradients(Loss& loss, const PackedBatch& batch) {
  loss.zero_grad();
  const Variable value = loss(batch);
  value.backward();
  NamedTensors found{{"loss", value.tensor()}};
  for (const nn::NamedParameter& named : loss.named_parameters()) {
    REQUIRE_MESSAGE(named.parameter.grad().defined(), named.name);
    found.emplace_back(named.name, named.parameter.grad());
  }
  return found;
}
inline std::vector<std::vector<float>> bits_of(const NamedTensors& tensors) {
  std::vector<std::vector<float>> bits;
  for (const auto& [name, x] : tensors) bits.push_back(x.to_vector());
  return bits;
}

/// The lines of tests/oracles/sentences.txt.
inline std::vector<std::string> oracle_sentences() {
  std::vector<std::string> sentences;
  std::ifstream lines(oracle_folder() + "/sentences.txt");
  for (std::string line; std::getline(lines, line);) sentences.push_back(line);
  REQUIRE(sentences.size() == 12);
  return sentences;
}

// A batch of sentences given as packed ids; columns are packed sequentially.
inline PackedBatch make_batch(const Oracle& oracle, const std::vector<std::string>& columns,
                              bool padded = false, std::int32_t pad = 0) {
  std::vector<std::vector<std::int32_t>> ids, starts;
  for (const std::string& column : columns) {
    ids.push_back(oracle.tensor(column + "ids").to_vector<std::int32_t>());
    starts.push_back(oracle.tensor(column + "cu_seqlens").to_vector<std::int32_t>());
  }
  BatchBuilder builder(static_cast<std::int64_t>(columns.size()));
  for (std::size_t row = 0; row + 1 < starts[0].size(); ++row) {
    std::vector<std::span<const std::int32_t>> texts;
    for (std::size_t c = 0; c < columns.size(); ++c)
      texts.emplace_back(ids[c].data() + starts[c][row],
                         static_cast<std::size_t>(starts[c][row + 1] - starts[c][row]));
    builder.add_row(texts, static_cast<std::int64_t>(row));
  }
  return builder.build(0, padded, pad).to(default_device());
}

inline PackedBatch pair_batch(const Oracle& oracle, int k, bool padded = false,
                              std::int32_t pad = 0) {
  const std::string name = str("batch", k, "/");
  PackedBatch batch = make_batch(oracle, {name + "u_", name + "v_"}, padded, pad);
  batch.labels = oracle.tensor(name + "labels").to(DType::i64).to(default_device());
  return batch;
}

// The largest gradient of the model. Gradients that are zero in theory (of key biases) are compared
// with a millionth of it.
inline double largest_gradient(const Oracle& oracle, const nn::Module& module) {
  double largest = 0;
  for (const nn::NamedParameter& named : module.named_parameters())
    for (double g : oracle.tensor("softmax_loss.grad/" + named.name).to_vector<double>())
      largest = std::max(largest, std::abs(g));
  return largest;
}

inline void start_from_oracle(const Oracle& oracle, SoftmaxLoss& loss) {
  for (const char* name : {"classifier.weight", "classifier.bias"})
    loss.parameter(name).mutable_tensor().copy_(oracle.tensor(std::string("softmax_loss/") + name));
}

}  // namespace ringlet::models
