// A loss of our own: InfoNCE over the rows of all ranks, with a learnable temperature (Radford et
// al., 2021). Two ranks train it under DDP and under FSDP.
#include <cmath>
#include <iostream>

#include "ringlet.h"
#include "ringlet/models/losses/embedding_loss.h"
using namespace ringlet;
namespace ag = ringlet::autograd;

namespace {

struct TemperatureLoss final : models::EmbeddingLoss {
  explicit TemperatureLoss(models::SentenceEncoder of)
      : EmbeddingLoss(std::move(of),
                      {.kind = "TemperatureLoss", .compares_rows = true, .min_rows = 2},
                      [this](const Variable& embeddings, const models::PackedBatch& batch, auto&) {
                        return value(ag::normalize(embeddings), batch);
                      }) {}

  Variable value(const Variable& unit, const models::PackedBatch& batch) const {
    const nn::GlobalRows rows = global_rows(batch);
    const Variable all = rows.gather(models::column(unit, batch, 1), 1);  // of every rank
    const Variable cosines = ag::matmul(models::column(unit, batch, 0), all, {.trans_b = true});
    const auto first = static_cast<double>(rows.begin()), count = static_cast<double>(rows.own());
    const Tensor own = arange(first, first + count, 1, DType::i64, unit.device());
    return ag::cross_entropy(cosines * ag::exp(log_scale), own,
                             static_cast<double>(batch.global_rows));
  }

  nn::Parameter log_scale = register_parameter("log_scale", full({}, std::log(10)));
};

// One sentence of eight pairs after the other.
std::vector<std::string> sentences() {
  std::vector<std::string> all;
  for (const char* animal : {"dog", "cat", "bird", "fish", "horse", "mouse", "bear", "fox"})
    for (const char* moves : {"runs", "is moving"}) all.push_back(str("a ", animal, ' ', moves));
  return all;
}

train::Datasets pairs() {
  auto data = std::make_shared<train::TextDataset>(
      "pairs", std::vector<std::string>{"sentence1", "sentence2"}, train::Target::none);
  const std::vector<std::string> all = sentences();
  for (std::size_t i = 0; i < all.size(); i += 2)
    data->add_row(std::vector<std::string_view>{all[i], all[i + 1]});
  return {data};
}

struct Trained {
  std::vector<float> losses;  // of the global batches
  float scale;
  bool operator==(const Trained&) const = default;
};

template <class Strategy>
Trained train_pairs(const comm::Group& world) {
  manual_seed(1);
  const models::EncoderConfig config = models::EncoderConfig::named("tiny");
  const models::SentenceEncoder model(
      config, models::train_tokenizer(sentences(), {.family = models::TokenizerFamily::kMpnet,
                                                    .vocab_size = config.vocab_size}));
  TemperatureLoss loss(model);
  const Strategy strategy(loss, world);
  train::AdamW optimizer(loss, {.lr = 2e-3});
  train::Loader loader(pairs(), model.tokenizer(), {.batch_size = 4}, world);
  Trained out;
  for (int epoch = 0; epoch < 40; ++epoch)
    for (const models::PackedBatch& batch : loader) {
      const Variable value = loss(batch);  // this rank's part of the global mean
      Tensor whole = value.tensor().clone();
      world.all_reduce(whole).wait();
      out.losses.push_back(whole.item());
      value.backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  // Under FSDP a parameter is whole only inside a forward; this gathers it.
  out.scale = std::exp(nn::WholeParameters(loss)(loss.log_scale).item());
  return out;
}

}  // namespace

int main() try {
  comm::launch(
      [](const comm::Group& world) {
        const Trained whole = train_pairs<train::DistributedDataParallel>(world);
        const Trained sharded = train_pairs<train::FullySharded>(world);
        if (world.rank() == 0)
          std::cout << "loss " << whole.losses.front() << " -> " << whole.losses.back()
                    << ", scale 10 -> " << whole.scale << "\n";
        RINGLET_CHECK(whole == sharded, "DDP and FSDP differ");
        RINGLET_CHECK(whole.losses.back() < 0.5f * whole.losses.front(), "the loss did not fall");
        RINGLET_CHECK(whole.scale != 10, "the temperature was not learned");
      },
      2, {.ranks = comm::Ranks::threads});
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
