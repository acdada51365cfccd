// BERT and MPNet against transformers: tests/oracles/README.md says what the files hold.
#include "ringlet/models/transformer.h"

#include <doctest/doctest.h>

#include <fstream>

#include "oracle_batch.h"
#include "ringlet/nn/arena.h"

using namespace ringlet;
using namespace ringlet::models;

TEST_CASE("hidden states are those of transformers") {
  for (const char* name : {"bert", "mpnet"}) {
    CAPTURE(name);
    const Oracle oracle(name);
    const SentenceEncoder encoder = load(name);
    encoder.transformer()->eval();
    const PackedBatch batch = make_batch(oracle, {"forward/"});
    const Variable hidden = (*encoder.transformer())(batch);
    check_close(hidden.tensor(), oracle.tensor("forward/last_hidden_state"), 1e-5);
  }
}

TEST_CASE("every gradient of SoftmaxLoss is PyTorch's") {
  for (const char* name : {"bert", "mpnet"}) {
    for (bool packed_arena : {false, true}) {
      CAPTURE(name);
      CAPTURE(packed_arena);
      const Oracle oracle(name);
      SoftmaxLoss loss(load_unnormalized(name), 3);
      start_from_oracle(oracle, loss);
      if (packed_arena) nn::pack(loss)->grad();
      const Variable value = loss(pair_batch(oracle, 0));
      check_close(value.tensor(), oracle.tensor("softmax_loss/loss"), 1e-5);
      value.backward();
      const double floor = 1e-6 / 1e-4 * largest_gradient(oracle, loss);
      for (const nn::NamedParameter& named : loss.named_parameters()) {
        REQUIRE(named.parameter.grad().defined());
        check_close(named.parameter.grad(), oracle.tensor("softmax_loss.grad/" + named.name), 1e-4,
                    named.name, floor);
      }
    }
  }
}

TEST_CASE("checkpointing changes no gradient, dropout on") {
  const Oracle oracle("mpnet");
  const auto gradients = [&](bool checkpointing) {
    const GeneratorGuard random({.seed = 7, .step = 3});
    EncoderConfig config = load("mpnet").config();
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1;
    const SentenceEncoder encoder(config, load("mpnet").tokenizer());
    SoftmaxLoss loss(encoder, 3);
    encoder.transformer()->set_checkpointing(checkpointing);
    const Variable value = loss(pair_batch(oracle, 0));  // the batch is gone when backward comes
    value.backward();
    std::vector<std::vector<float>> all;
    for (const nn::Parameter& parameter : loss.parameters())
      all.push_back(parameter.grad().to_vector());
    return all;
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("sentence embeddings are those of SentenceTransformer.encode") {
  std::vector<std::string> sentences;
  std::ifstream lines(std::string(RINGLET_TESTS_DIR) + "/oracles/sentences.txt");
  for (std::string line; std::getline(lines, line);) sentences.push_back(line);
  REQUIRE(sentences.size() == 12);
  for (const char* name : {"bert", "mpnet"}) {
    CAPTURE(name);
    const Oracle oracle(name);
    check_close(load(name).encode(sentences, {.batch_tokens = 50}),
                oracle.tensor("encode/embeddings"), 1e-5);
  }
}

TEST_CASE("a packed batch equals a padded one, dropout on") {
  const Oracle oracle("mpnet");
  const auto run = [&](bool padded) {
    const GeneratorGuard random({.seed = 7, .step = 3});
    EncoderConfig config = load("mpnet").config();
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1;
    SoftmaxLoss loss(SentenceEncoder(config, load("mpnet").tokenizer()), 3);
    const Variable value = loss(pair_batch(oracle, 0, padded, 1));
    value.backward();
    std::vector<Tensor> out{value.tensor()};
    for (const nn::NamedParameter& named : loss.named_parameters())
      out.push_back(named.parameter.grad());
    return out;
  };
  const std::vector<Tensor> packed = run(false), padded = run(true);
  double largest = 0;
  for (const Tensor& grad : packed)
    for (double g : grad.to_vector<double>()) largest = std::max(largest, std::abs(g));
  // Sums over tokens associate differently: a few hundred terms of one rounding each.
  for (std::size_t i = 0; i < packed.size(); ++i)
    check_close(padded[i], packed[i], 512 * kF32, "", 1e-2 * largest);
}
