// A tiny MPNet with dropout, three data sets with a loss each, and some steps of training: the
// common test case of the strategies.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "../results.h"
#include "../words.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/ringlet.h"
#include "ringlet/tests/emulated/emulated.h"

namespace tiny {

using namespace ringlet;

inline constexpr std::size_t kRows = 3;                  // per rank
inline const int kSteps = emulated::configure ? 4 : 10;  // a step on the emulated GPU takes seconds

inline models::EncoderConfig config() {
  models::EncoderConfig config;
  config.architecture = models::Architecture::mpnet;
  config.vocab_size = 64;   // most rows are never used
  config.hidden_size = 48;  // layers of 7 norm blocks: no number of ranks divides it
  config.num_hidden_layers = 3;
  config.num_attention_heads = 6;
  config.intermediate_size = 96;
  config.max_position_embeddings = 16;
  config.pad_token_id = 0;
  return config;
}

/// 24 layers, so that a few complete ones are small relative to the rest.
inline models::EncoderConfig deep_config() {
  models::EncoderConfig deep = config();
  deep.hidden_size = 96;
  deep.intermediate_size = 384;
  deep.num_hidden_layers = 24;
  return deep;
}

/// The first n devices of the default type; if there are fewer, some repeatedly.
inline std::vector<Device> devices(int n) {
  const DeviceType type = default_device().type;
  const int there = type == DeviceType::cpu ? n : backend(type).device_count();
  std::vector<Device> all;
  for (int d = 0; d < n; ++d) all.push_back({type, d % there});
  return all;
}

/// The strategies of several devices.
inline std::vector<train::Strategy> strategies() {
  std::vector<train::Strategy> all(train::kStrategiesOfRanks.begin(),
                                   train::kStrategiesOfRanks.end());
  all.push_back(train::Strategy::dp);
  return all;
}

/// Two sets of labelled pairs, one of scored pairs; their last batches are incomplete.
inline train::Datasets datasets() {
  return {words::dataset(23, 3), words::dataset(19, 3), words::scored_dataset(17)};
}

/// An encoder and the losses of the three data sets.
struct Model {
  explicit Model(std::uint64_t seed = 5)
      : guard({seed, 0, 0}), encoder(config(), words::tokenizer()) {
    train(encoder);
  }
  /// Makes losses that train `other`.
  void train(const models::SentenceEncoder& other) {
    using Losses = std::vector<std::shared_ptr<models::Loss>>;
    encoder = other;
    loss = std::make_shared<models::MultiLoss>(
        encoder.modules(), Losses{std::make_shared<models::SoftmaxLoss>(encoder, 3),
                                  std::make_shared<models::SoftmaxLoss>(encoder, 3),
                                  std::make_shared<models::CosineSimilarityLoss>(encoder)});
    default_generator() = {42, 0, 0};
  }
  GeneratorGuard guard;
  models::SentenceEncoder encoder;
  std::shared_ptr<models::MultiLoss> loss;
};

/// `groups`: of an encoder's parameters.
inline train::AdamWOptions adamw(bool groups = true) {
  train::AdamWOptions options{.lr = 1e-3, .weight_decay = 0.01, .max_grad_norm = 0.5};
  if (groups)
    options.groups = {{.parameters = {"layer.0", "word_embeddings"}, .lr = 5e-4},
                      {.parameters = {"bias"}, .weight_decay = 0.02}};
  return options;
}

inline train::LoaderOptions loader_options(int rank, int world_size, std::size_t accumulation = 1) {
  return {.batch_size = kRows,
          .accumulation = accumulation,
          .seed = 7,
          .dealing = train::Dealing::round_robin,
          .rank = static_cast<std::size_t>(rank),
          .world_size = static_cast<std::size_t>(world_size)};
}

/// On the default device, as under a Trainer.
inline models::PackedBatch next(models::Loss& loss, train::Loader<models::PackedBatch>& loader) {
  const models::PackedBatch* batch = loader.next();
  return loss.placed(batch ? *batch : *loader.next());
}

/// The whole batches of n ranks, for one that divides them itself.
inline train::LoaderOptions whole_batches(int n) {
  train::LoaderOptions options = loader_options(0, 1);
  options.batch_size = kRows * static_cast<std::size_t>(n);
  return options;
}

/// The calls of a user's loop.
struct Training {
  Training(Model& model, const train::LoaderOptions& options)
      : model(model),
        optimizer(*model.loss, adamw()),
        loader(datasets(), model.encoder.tokenizer(), options) {}
  Training(Model& model, const comm::Group& group)
      : Training(model, loader_options(group.rank(), group.size())) {}

  models::PackedBatch next() { return tiny::next(*model.loss, loader); }
  Variable forward() { return (*model.loss)(next()); }
  void update() {
    optimizer.step();
    optimizer.zero_grad();
  }
  void step() {
    forward().backward();
    update();
  }

  Model& model;
  train::AdamW optimizer;
  train::Loader<models::PackedBatch> loader;
};

/// The sequential backwards of a step; true: under no_sync.
using Backwards = std::vector<bool>;

/// All steps of this rank.
inline void train_rank(Model& model, const train::LoaderOptions& options,
                       const Backwards& backwards = {false}) {
  Training training(model, options);
  for (int step = 0; step < kSteps; ++step) {
    for (const bool pause : backwards) {
      std::optional<train::NoSync> no_sync;
      if (pause) no_sync.emplace(*model.loss);
      training.forward().backward();
    }
    training.update();
  }
}

using Bits = std::vector<std::uint32_t>;

/// Copies the weights to a model without a strategy, as the reference of one device;
/// collective.
inline void copy_weights(const nn::Module& from, const nn::Module& to) {
  nn::WholeParameters whole(from);
  const std::vector<nn::Parameter> sources = from.parameters(), copies = to.parameters();
  for (std::size_t i = 0; i < sources.size(); ++i)
    copies[i].mutable_tensor().copy_(whole(sources[i]));
}

/// All parameters' bits; collective if they are sharded.
inline Bits bits(const nn::Module& module) {
  Bits all;
  nn::WholeParameters whole(module);
  for (const nn::Parameter& parameter : module.parameters()) {
    const Tensor value = whole(parameter).to(Device{});
    const auto* words = reinterpret_cast<const std::uint32_t*>(value.bytes());
    all.insert(all.end(), words, words + value.numel());
  }
  return all;
}

using Gradients = std::map<const autograd::VariableState*, Tensor>;

/// sum += more, also for gradients that `sum` lacks.
inline void add(Gradients& sum, const Gradients& more) {
  for (const auto& [leaf, grad] : more) {
    Tensor& known = sum[leaf];
    if (known.defined()) {
      axpby(known, 1, grad, 1);
    } else {
      known = grad.clone();
    }
  }
}

/// sum(n) = sum(the first ones, the largest power of two below n) + sum(the rest).
inline Gradients sum_by_tree(std::span<const Gradients> parts) {
  Gradients sum;
  if (parts.size() == 1) {
    add(sum, parts[0]);
  } else {
    const std::size_t half = std::bit_floor(parts.size() - 1);
    sum = sum_by_tree(parts.first(half));
    add(sum, sum_by_tree(parts.subspan(half)));
  }
  return sum;
}

/// Called before each update with the gradients of each rank (since the last sum), and after the
/// last update with none.
using Look = std::function<void(const Model&, train::Optimizer&, const std::vector<Gradients>&)>;

/// The same training by n sequential ranks on one device. Each rank's gradients start from zero;
/// then they are added by the tree over ranks. Later reductions are summed separately and added.
inline Bits virtual_ranks(int n, const Backwards& backwards = {false}, const Look& look = {},
                          DType dtype = DType::f32) {
  Model model;
  model.encoder.transformer()->set_compute_dtype(dtype);
  train::AdamW optimizer(*model.loss, adamw());
  std::deque<train::Loader<models::PackedBatch>> loaders;
  for (int rank = 0; rank < n; ++rank)
    loaders.emplace_back(datasets(), model.encoder.tokenizer(), loader_options(rank, n));
  for (int step = 0; step < kSteps; ++step) {
    Gradients total;
    for (auto begin = backwards.begin(); begin != backwards.end();) {
      const auto end = std::find(begin, backwards.end(), false) + 1;
      std::vector<Gradients> ranks;
      for (auto& of_rank : loaders) {
        model.loss->zero_grad();
        for (auto each = begin; each != end; ++each)
          (*model.loss)(next(*model.loss, of_rank)).backward();
        Gradients& mine = ranks.emplace_back();
        for (const nn::Parameter& parameter : model.loss->parameters())
          if (parameter.grad().defined()) mine[parameter.state().get()] = parameter.grad().clone();
      }
      add(total, sum_by_tree(ranks));
      begin = end;
      if (look && end == backwards.end()) look(model, optimizer, ranks);
    }
    model.loss->zero_grad();
    for (const nn::Parameter& parameter : model.loss->parameters()) {
      const auto found = total.find(parameter.state().get());
      if (found == total.end()) continue;
      parameter.state()->grad_buffer.copy_(found->second);
      parameter.state()->has_grad = true;
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  if (look) look(model, optimizer, {});
  return bits(*model.loss);
}

/// Attaches a strategy to a model, trains, and detaches it.
using TrainRank = std::function<void(Model&, const comm::Group&)>;

/// The bits of every rank after training with a strategy; ranks other than 0 start from other
/// weights.
inline std::vector<Bits> run(int n, const comm::GroupOptions& options,
                             const TrainRank& train_rank) {
  std::vector<Bits> all(static_cast<std::size_t>(n));
  comm::launch(
      [&](const comm::Group& group) {
        Model model(group.rank() == 0 ? 5 : 99 + static_cast<std::uint64_t>(group.rank()));
        train_rank(model, group);
        all[static_cast<std::size_t>(group.rank())] = bits(*model.loss);
      },
      n, {.ranks = comm::Ranks::threads, .group = options});
  return all;
}

}  // namespace tiny
