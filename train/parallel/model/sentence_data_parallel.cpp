#include "ringlet/train/parallel/model/sentence_data_parallel.h"

#include <optional>
#include <set>

#include "ringlet/models/losses/embedding_loss.h"
#include "ringlet/models/transformer.h"
#include "ringlet/nn/eval_guard.h"
#include "ringlet/train/data/loader.h"
#include "ringlet/train/parallel/replicas.h"

namespace ringlet::train {
namespace {

using Dealt = std::vector<std::vector<std::size_t>>;

/// Rows of each part: what the loader decided, or near-equal in tokens.
Dealt deal(const models::PackedBatch& batch, std::size_t parts) {
  if (batch.device_rows.size() == parts) {
    Dealt dealt(parts);
    std::size_t row = 0;
    for (std::size_t part = 0; part < parts; ++part)
      for (std::int64_t i = 0; i < batch.device_rows[part]; ++i) dealt[part].push_back(row++);
    return dealt;
  }
  const auto starts = batch.cu_seqlens.to_vector<std::int64_t>();
  const auto lengths = batch.lengths.defined() ? batch.lengths.to_vector<std::int64_t>()
                                               : std::vector<std::int64_t>();
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(batch.rows));
  for (std::size_t s = 0; s + 1 < starts.size(); ++s)
    tokens[s % tokens.size()] += lengths.empty() ? starts[s + 1] - starts[s] : lengths[s];
  return deal_rows(tokens, parts);
}

/// Runs a loss on all devices, each with its rows.
class LossParts final : public models::BatchRunner {
 public:
  LossParts(models::Loss& loss, std::shared_ptr<Replicas> replicas)
      : loss_(loss), replicas_(std::move(replicas)) {
    for (nn::Module* module : replicas_->modules()) {
      auto* copy = dynamic_cast<models::Loss*>(module);
      RINGLET_CHECK(copy, "[dp] blank_copy of a ", loss.kind(), " is no loss");
      losses_.push_back(copy);
    }
    connect();
    replicas_->set_on_failure([this](const std::string& cause) { store_->raise(cause); });
    loss_.set_runner(this);
  }
  ~LossParts() override {
    replicas_->set_on_failure(nullptr);
    for (std::size_t d = 0; d < losses_.size(); ++d) set_devices(d, nullptr);
    loss_.set_runner(nullptr);
  }

  // Without gradients its transformer alone is dealt out, and the batch is not filled up.
  Variable run(const models::PackedBatch& batch) override {
    if (!autograd::grad_enabled()) return loss_.run_here(batch.to(replicas_->devices()[0]));
    if (store_->raised()) connect();  // the group of a device that failed has ended
    const Dealt dealt = deal(batch, losses_.size());
    return replicas_->sum(
        [&](std::size_t d) { return losses_[d]->run_here(batch.select(dealt[d])); });
  }

 private:
  /// The devices' threads are the ranks of a group, which they make at its first use.
  void connect() {
    store_ = comm::make_memory_store();
    groups_.assign(losses_.size(), std::nullopt);
    if (losses_.size() == 1) return;
    for (std::size_t d = 0; d < losses_.size(); ++d)
      set_devices(d, [this, d]() -> const comm::Group& {
        RINGLET_CHECK(replicas_->running(),
                      "[dp] a loss below the one that is divided over devices compares the rows "
                      "of all: call the outer one");
        if (!groups_[d])
          groups_[d].emplace(store_, static_cast<int>(d), static_cast<int>(losses_.size()),
                             comm::GroupOptions{}, "dp");
        return *groups_[d];
      });
  }

  void set_devices(std::size_t d, const std::function<const comm::Group&()>& devices) {
    losses_[d]->visit([&](const std::string&, nn::Module& below) {
      if (auto* loss = dynamic_cast<models::EmbeddingLoss*>(&below)) loss->set_devices(devices);
    });
  }

  models::Loss& loss_;
  std::shared_ptr<Replicas> replicas_;
  std::vector<models::Loss*> losses_;  // one per device
  std::shared_ptr<comm::Store> store_;
  std::vector<std::optional<comm::Group>> groups_;  // one per device
};

/// Runs a transformer on all devices where no gradients are asked for, each with its rows: what
/// encode, evaluators and logits spend their time in.
class TransformerParts final : public models::BatchRunner {
 public:
  /// `place` among the modules below each replica, in the order of visit.
  TransformerParts(std::shared_ptr<Replicas> replicas, std::size_t place)
      : replicas_(std::move(replicas)) {
    for (nn::Module* module : replicas_->modules()) {
      std::size_t next = 0;
      module->visit([&](const std::string&, nn::Module& below) {
        if (next++ == place) copies_.push_back(dynamic_cast<models::Transformer*>(&below));
      });
    }
    own().set_runner(this);
  }
  ~TransformerParts() override { own().set_runner(nullptr); }

  Variable run(const models::PackedBatch& batch) override {
    if (autograd::grad_enabled() || replicas_->running()) return own().run_here(batch);
    const Dealt dealt = deal(batch, copies_.size());
    std::vector<models::PackedBatch> parts(copies_.size());
    std::vector<Tensor> hidden(copies_.size());  // (T of the part, H) on its device
    replicas_->run([&](std::size_t d) {
      parts[d] = batch.select(dealt[d]);
      hidden[d] = forward(d, parts[d].to(replicas_->devices()[d]));
    });
    Tensor out = empty({batch.tokens(), hidden[0].size(1)}, hidden[0].dtype(), hidden[0].device());
    for (std::size_t d = 0; d < parts.size(); ++d)
      put_back(out, batch, hidden[d], parts[d], dealt[d]);
    return Variable(out);
  }

 private:
  models::Transformer& own() const { return *copies_[0]; }

  Tensor forward(std::size_t d, const models::PackedBatch& part) const {
    models::Transformer& copy = *copies_[d];
    if (d == 0) return copy.run_here(part).tensor();
    std::optional<nn::EvalGuard> evaluating;
    if (own().training()) {
      copy.train();
    } else {
      evaluating.emplace(copy);
    }
    return copy.run_here(part).tensor();
  }

  /// The rows of a part to where they are in the whole batch.
  static void put_back(Tensor& out, const models::PackedBatch& batch, const Tensor& hidden,
                       const models::PackedBatch& part, const std::vector<std::size_t>& rows) {
    const auto to = batch.cu_seqlens.to_vector<std::int64_t>();
    const auto from = part.cu_seqlens.to_vector<std::int64_t>();
    const auto all = static_cast<std::size_t>(batch.rows);
    for (std::size_t s = 0; s + 1 < from.size(); ++s) {
      const std::size_t sentence = s / rows.size() * all + rows[s % rows.size()];
      out.slice(to[sentence], to[sentence + 1]).copy_(hidden.slice(from[s], from[s + 1]));
    }
  }

  std::shared_ptr<Replicas> replicas_;
  std::vector<models::Transformer*> copies_;  // one per device
};

}  // namespace

SentenceDataParallel::SentenceDataParallel(nn::Module& module, std::vector<Device> devices,
                                           Options options)
    : DataParallel(module, std::move(devices), options) {
  std::size_t position = 0;
  std::set<const nn::Module*> seen;  // a transformer may be held in several places
  module.visit([&](const std::string&, nn::Module& below) {
    const std::size_t here = position++;
    if (!dynamic_cast<models::Transformer*>(&below) || !seen.insert(&below).second) return;
    runners_.push_back(std::make_unique<TransformerParts>(replicas(), here));
  });
  auto* const loss = dynamic_cast<models::Loss*>(&module);
  if (!loss) return;
  RINGLET_CHECK(!options.average || loss->is_local_mean(),
                "[dp] average divides by the devices, and the loss has divided by the rows of all: "
                "leave average off, or call set_local_mean() on a loss that is a local mean");
  runners_.push_back(std::make_unique<LossParts>(*loss, replicas()));
}

}  // namespace ringlet::train
