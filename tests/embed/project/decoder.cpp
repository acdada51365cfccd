// A small decoder, characters in and characters out: trained under DDP, then under FSDP. It runs
// alone, and as ranks of `ringlet run`.
#include <iostream>
#include <string>

#include "ringlet.h"
using namespace ringlet;
namespace ag = ringlet::autograd;

namespace {

constexpr std::int64_t kWidth = 64, kHeads = 4, kLayers = 2, kContext = 32, kCharacters = 128;

// Ours to learn by heart.
const std::string kText =
    "a ring of ranks adds its numbers: each sends a piece to the next, and adds what it has "
    "received. after as many steps as there are ranks, less one, each rank holds one whole sum. "
    "as many steps again carry the sums around, and all ranks end with the same bits. ";

// x + attention(norm(x)), then x + mlp(norm(x)): RMSNorm before, rotary positions inside.
struct Block final : nn::Layer<Block> {
  const char* kind() const override { return "Block"; }
  bool is_unit() const override { return true; }  // gathered and released as a whole

  std::shared_ptr<nn::Sequential> qkv = register_module(
      "qkv", std::make_shared<nn::Sequential>(std::make_shared<nn::RMSNorm>(kWidth),
                                              std::make_shared<nn::Linear>(kWidth, 3 * kWidth)));
  std::shared_ptr<nn::Linear> out =
      register_module("out", std::make_shared<nn::Linear>(kWidth, kWidth));
  std::shared_ptr<nn::Sequential> mlp = register_module(
      "mlp",
      std::make_shared<nn::Sequential>(std::make_shared<nn::RMSNorm>(kWidth),
                                       std::make_shared<nn::Linear>(kWidth, 4 * kWidth), ag::silu,
                                       std::make_shared<nn::Linear>(4 * kWidth, kWidth)));

  Variable forward(const Variable& x) {  // (B, T, C)
    const std::int64_t batch = x.size(0), length = x.size(1);
    const auto heads = [&](const Variable& part) {  // (B, heads, T, C / heads)
      return ag::transpose(ag::view(part, {batch, length, kHeads, -1}), 1, 2);
    };
    const std::vector<Variable> parts = ag::split((*qkv)(x), {kWidth, kWidth, kWidth}, -1);
    const Variable seen = ag::scaled_dot_product_attention(ag::rotary_embedding(heads(parts[0])),
                                                           ag::rotary_embedding(heads(parts[1])),
                                                           heads(parts[2]), /*causal=*/true);
    const Variable y = x + (*out)(ag::view(ag::transpose(seen, 1, 2), x.shape()));
    return y + (*mlp)(y);
  }
};

struct Decoder final : nn::Layer<Decoder> {
  Decoder() {
    for (std::int64_t i = 0; i < kLayers; ++i) blocks->push_back(std::make_shared<Block>());
  }
  std::shared_ptr<nn::Embedding> characters =
      register_module("characters", std::make_shared<nn::Embedding>(kCharacters, kWidth));
  std::shared_ptr<nn::ModuleList<Block>> blocks =
      register_module("blocks", std::make_shared<nn::ModuleList<Block>>());
  std::shared_ptr<nn::Sequential> head = register_module(
      "head", std::make_shared<nn::Sequential>(std::make_shared<nn::RMSNorm>(kWidth),
                                               std::make_shared<nn::Linear>(kWidth, kCharacters)));

  Variable forward(const Tensor& ids) {  // (B, T) i32 -> (B, T, characters)
    Variable x = ag::view((*characters)(ids.view({-1})), {ids.size(0), ids.size(1), kWidth});
    for (const auto& block : *blocks) x = (*block)(x);
    return (*head)(x);
  }
};

struct Windows {
  Tensor ids, next;  // (B, T) i32
};

// Each row is the text from its number on, and what follows each character.
Windows windows(const train::Rows& rows, Device device) {
  std::vector<std::int32_t> ids, next;
  for (const std::size_t row : rows)
    for (std::size_t i = row; i < row + kContext; ++i) {
      ids.push_back(kText[i]);
      next.push_back(kText[i + 1]);
    }
  const Shape shape{static_cast<std::int64_t>(rows.size()), kContext};
  return {tensor(ids, shape, device), tensor(next, shape, device)};
}

std::string continued(Decoder& model, std::string text, std::size_t count, Device device) {
  const ag::NoGrad no_grad;
  while (count-- > 0) {
    const std::size_t begin = text.size() > kContext ? text.size() - kContext : 0;
    const std::vector<std::int32_t> ids(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                        text.end());
    const auto length = static_cast<std::int64_t>(ids.size());
    const Tensor scores = model(tensor(ids, {1, length}, device)).tensor()[0][length - 1];
    text += static_cast<char>(argmax(scores, -1).item<int>());
  }
  return text;
}

// The loss of every step, the mean over all ranks.
template <class Strategy>
std::vector<float> train_decoder(const comm::Group& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const Device device = Device::best();
  manual_seed(1);
  Decoder model;
  model.to(device);
  const Strategy strategy(model, world);
  train::AdamW optimizer(model, {.lr = 3e-3, .max_grad_norm = 1});
  const auto collate = [&](const train::Rows& rows) { return windows(rows, device); };
  train::Loader loader(kText.size() - kContext, collate, {.batch_size = 16 / ranks, .seed = 1},
                       world);
  std::vector<float> losses;
  for (int epoch = 0; epoch < 8; ++epoch)
    for (const Windows& batch : loader) {
      const Variable logits = ag::view(model(batch.ids), {-1, kCharacters});
      const Variable loss = loader.weigh(nn::cross_entropy(logits, batch.next.view({-1})));
      Tensor mean = loss.tensor().clone();
      world.all_reduce(mean).wait();
      losses.push_back(mean.item());
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  const std::string line = continued(model, "each rank ", 60, device);
  if (world.rank() == 0)
    std::cout << "loss " << losses.front() << " -> " << losses.back() << ": " << line << "\n";
  RINGLET_CHECK(kText.find(line) != std::string::npos, "the line is not in the text: ", line);
  return losses;
}

}  // namespace

int main() try {
  const comm::Group world = comm::init_from_env();
  const std::vector<float> whole = train_decoder<train::DistributedDataParallel>(world);
  const std::vector<float> sharded = train_decoder<train::FullySharded>(world);
  RINGLET_CHECK(whole == sharded, "DDP and FSDP have different losses");
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
