// Lesson 10: FSDP in three lines. Parameters, gradients and optimizer state are cut into shards; a
// layer is whole only while it is used.
#include <doctest/doctest.h>

#include <iostream>
#include <mutex>

#include "ringlet.h"

using namespace ringlet;

namespace {

models::SentenceEncoder tiny_encoder() {
  manual_seed(10);
  models::EncoderConfig config = models::EncoderConfig::named("tiny");
  const std::vector<std::string> texts{"a dog runs", "a cat sleeps", "a bird sings"};
  return {config, models::train_tokenizer(texts, {.family = models::TokenizerFamily::kMpnet,
                                                  .vocab_size = config.vocab_size})};
}

train::Datasets pairs() {
  auto data = std::make_shared<train::TextDataset>(
      "pairs", std::vector<std::string>{"sentence1", "sentence2"}, train::Target::score);
  data->add_row(std::vector<std::string_view>{"a dog runs", "a dog runs"}, 1.0);
  data->add_row(std::vector<std::string_view>{"a dog runs", "a cat sleeps"}, 0.0);
  data->add_row(std::vector<std::string_view>{"a bird sings", "a bird sings"}, 1.0);
  data->add_row(std::vector<std::string_view>{"a bird sings", "a cat sleeps"}, 0.0);
  return {data};
}

float train_pairs(const comm::Group& world, double* kept) {
  const models::SentenceEncoder model = tiny_encoder();
  models::CosineSimilarityLoss loss(model);
  train::FullySharded sharded(loss, world);  // 1: attach
  train::AdamW optimizer(loss, {.lr = 1e-3});
  train::Loader loader(pairs(), model.tokenizer(),
                       {.batch_size = 4 / static_cast<std::size_t>(world.size()),
                        .rank = static_cast<std::size_t>(world.rank()),
                        .world_size = static_cast<std::size_t>(world.size())});
  for (int epoch = 0; epoch < 5; ++epoch)
    for (const models::PackedBatch& batch : loader) {
      loss(batch).backward();  // 2: layers come and go in here
      optimizer.step();        // 3: each rank moves its shard
      optimizer.zero_grad();
    }
  *kept = 0;
  for (const nn::LocalSlice& slice : loss.arena()->local_slices())
    *kept += static_cast<double>(slice.end - slice.begin);
  // The model stays the model: encode works at any moment, on all ranks together.
  return model.encode({"a dog runs"}).to_vector()[0];
}

}  // namespace

TEST_CASE("10 FSDP") {
  double whole = 0;
  const float alone = train_pairs(comm::Group(), &whole);
  std::mutex mutex;
  comm::launch(
      [&](const comm::Group& world) {
        double kept = 0;
        const float embedding = train_pairs(world, &kept);
        const std::lock_guard lock(mutex);
        std::cout << "rank " << world.rank() << " keeps " << kept << " of " << whole
                  << " parameters; embedding begins with " << embedding << ", alone " << alone
                  << "\n";
        CHECK(kept < 0.6 * whole);
        CHECK(embedding == doctest::Approx(alone).epsilon(1e-3));
      },
      2);
}
