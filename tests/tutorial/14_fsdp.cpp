// Lesson 14: FSDP in three lines. Parameters, gradients and optimizer state are divided into
// shards; a layer is complete only while it is used.
#include <doctest/doctest.h>

#include <cmath>

#include "in_rank_order.h"

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

struct Trained {
  float first_loss;              // of the first global batch
  std::vector<float> embedding;  // of a sentence, at the end
  double kept = 0;               // elements of parameters on this rank
};

template <class Strategy>
Trained train_pairs(const comm::Group& world) {
  const models::SentenceEncoder model = tiny_encoder();
  models::CosineSimilarityLoss loss(model);
  Strategy sharded(loss, world);  // 1: attach
  train::AdamW optimizer(loss, {.lr = 1e-3});
  train::Loader loader(pairs(), model.tokenizer(),
                       {.batch_size = 4 / static_cast<std::size_t>(world.size()),
                        .rank = static_cast<std::size_t>(world.rank()),
                        .world_size = static_cast<std::size_t>(world.size())});
  Tensor first_loss;
  for (int epoch = 0; epoch < 5; ++epoch)
    for (const models::PackedBatch& batch : loader) {
      const Variable value = loss(batch);  // our part of the global mean
      if (!first_loss) first_loss = value.tensor().clone();
      value.backward();  // 2: gathers and releases layers
      optimizer.step();  // 3: each rank updates its shard
      optimizer.zero_grad();
    }
  world.all_reduce(first_loss).wait();
  // The model stays usable: encode works at any moment, on all ranks together.
  Trained out{first_loss.item(), model.encode({"a dog runs"}).to_vector()};
  for (const nn::LocalSlice& slice : loss.arena()->local_slices())
    out.kept += static_cast<double>(slice.end - slice.begin);
  return out;
}

}  // namespace

TEST_CASE("14 FSDP") {
  const Trained alone = train_pairs<train::FullySharded>(comm::Group());
  comm::launch(
      [&](const comm::Group& world) {
        const Trained whole = train_pairs<train::DistributedDataParallel>(world);
        const Trained sharded = train_pairs<train::FullySharded>(world);
        print_in_rank_order(world, str("rank ", world.rank(), " keeps ", sharded.kept, " of ",
                                       whole.kept, " parameters; embedding begins with ",
                                       sharded.embedding[0], ", alone ", alone.embedding[0]));
        CHECK(sharded.kept < 0.6 * whole.kept);
        CHECK(sharded.embedding == whole.embedding);  // the same bits as under DDP
        // A single rank adds the losses of the four pairs in another order. These are 3 additions,
        // each rounded once in either run; a division by 4 is exact. For another batch size a GPU
        // also adds its products in other orders: of at most 512 terms.
        const bool on_cpu = default_device().type == DeviceType::cpu;
        const int additions = on_cpu ? 3 : 3 + 511;
        CHECK(std::abs(sharded.first_loss - alone.first_loss) <=
              2 * additions * 0x1p-24 * alone.first_loss);
      },
      2);
}
