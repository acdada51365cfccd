// Lesson 6: a sentence encoder turns text into a vector, and learns which sentence follows from
// which.
#include <doctest/doctest.h>

#include <cmath>
#include <iostream>
#include <numeric>

#include "ringlet.h"

using namespace ringlet;

namespace {

double cosine(const Tensor& a, const Tensor& b) {
  return autograd::cosine_similarity(Variable(a.view({1, -1})), Variable(b.view({1, -1})))
      .item<double>();
}

// The first sentences of a packed batch: # is a token, . is what padding would add.
void draw(const models::PackedBatch& batch) {
  const auto starts = batch.cu_seqlens.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < 5; ++i) {
    const auto length = static_cast<std::size_t>(starts[i + 1] - starts[i]);
    std::cout << "sentence " << i << "  " << std::string(length, '#')
              << std::string(static_cast<std::size_t>(batch.max_length) - length, '.')
              << "  from token " << starts[i] << "\n";
  }
  std::cout << "a batch has " << batch.real_tokens << " tokens, padded " << batch.padded_tokens
            << "\n";
}

}  // namespace

TEST_CASE("06 encoder") {
  manual_seed(3);
  // Pairs made by the project itself. The second sentence follows from the first (0), is possible
  // (1), or is excluded (2).
  const train::TextSplits pairs = train::make_nli(/*seed=*/1, /*train=*/1920, /*dev=*/30);
  std::vector<std::string> texts;
  train::TextDataset data("nli", {"sentence1", "sentence2"}, train::Target::label);
  for (const train::TextPair& pair : pairs.train) {
    const std::string_view columns[] = {pair.sentence1, pair.sentence2};
    data.add_row(columns, pair.target);
    texts.insert(texts.end(), {pair.sentence1, pair.sentence2});
  }
  std::cout << "\"" << texts[0] << "\" / \"" << texts[1] << "\" is " << pairs.train[0].target
            << "\n";

  // A vocabulary learned from the text, and a small MPNet with random weights.
  const models::Tokenizer tokenizer = models::train_tokenizer(texts, {.vocab_size = 400});
  models::EncoderConfig config = models::EncoderConfig::named("tiny");
  config.vocab_size = tokenizer.vocab_size();
  const models::SentenceEncoder model(config, tokenizer);
  std::cout << model.transformer()->num_parameters() << " parameters, "
            << tokenizer.encode(texts[0]).ids.size() << " tokens in the first sentence\n";

  // SoftmaxLoss: a classifier over (u, v, |u - v|) that trains the encoder below it. Both sentences
  // of all pairs are contiguous in one batch: there is no padding.
  models::SoftmaxLoss loss(model, /*labels=*/3);
  train::AdamW optimizer(loss, {.lr = 1e-3, .max_grad_norm = 1});  // clips longer gradients
  train::Loader loader({std::make_shared<train::TextDataset>(std::move(data))}, tokenizer,
                       {.batch_size = 32});
  std::vector<double> losses;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const models::PackedBatch& batch : loader) {
      if (losses.empty()) draw(batch);
      const Variable value = loss(batch);
      value.backward();
      optimizer.step();
      optimizer.zero_grad();
      losses.push_back(value.item<double>());
    }
    std::cout << "epoch " << epoch << ": " << losses.size() << " steps, loss " << losses.back()
              << "\n";
  }
  const double last = std::accumulate(losses.end() - 20, losses.end(), 0.0) / 20;
  std::cout << "mean loss of the last 20 steps " << last << ", guessing has " << std::log(3.0)
            << "\n";
  CHECK(last < 0.95 * std::log(3.0));

  // Embeddings: one vector per sentence, independent of the other sentences.
  const Tensor a = model.encode(texts[0]), b = model.encode(texts[1]);
  std::cout << "cosine of the first pair: " << cosine(a, b) << "\n";
  const Tensor together = model.encode(std::vector<std::string>{texts[5], texts[0], texts[9]});
  CHECK(cosine(a, together[1]) > 0.99999);
  CHECK(cosine(a, together[0]) < 0.99999);
}
