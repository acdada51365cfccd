#include "ringlet/train/parallel/model/sentence_pipeline.h"

#include <algorithm>
#include <set>

#include "ringlet/autograd/functions.h"
#include "ringlet/comm/rows.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/train/parallel/model/same_rows.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::train {
namespace {

constexpr int kForwardTag = 2;  // messages of forwards without gradients

models::Transformer& transformer_of(models::Loss& loss) {
  std::set<models::Transformer*> found;
  loss.visit([&](const std::string&, nn::Module& below) {
    if (auto* transformer = dynamic_cast<models::Transformer*>(&below)) found.insert(transformer);
  });
  if (found.size() != 1)
    fail_input("pipeline: expected a loss with one transformer, found ", found.size());
  return **found.begin();
}

models::EmbeddingLoss* if_whole(models::Loss& loss, std::size_t datasets) {
  bool whole = false;
  for (std::size_t i = 0; i < datasets; ++i) whole = whole || loss.spans_ranks(i);
  auto* const alone = dynamic_cast<models::EmbeddingLoss*>(&loss);
  if (whole && !alone)
    fail_input("pipeline: ", loss.kind(), " holds a loss that compares the rows of a step; ",
               "expected that loss alone, or local negatives");
  return whole ? alone : nullptr;
}

/// The tensors of a batch that layers read, all i32.
constexpr Tensor models::PackedBatch::*kParts[] = {
    &models::PackedBatch::token_ids,        &models::PackedBatch::token_index,
    &models::PackedBatch::counted_position, &models::PackedBatch::positions,
    &models::PackedBatch::cu_seqlens,       &models::PackedBatch::lengths,
    &models::PackedBatch::sentence_ids};

/// A batch as its layers read it: the longest sentence, then each part's elements after their
/// number, -1 if it is undefined.
std::vector<std::int32_t> packed(const models::PackedBatch& batch) {
  std::vector<std::int32_t> all{static_cast<std::int32_t>(batch.max_length)};
  for (const auto part : kParts) {
    const bool there = (batch.*part).defined();
    const auto values =
        there ? (batch.*part).to_vector<std::int32_t>() : std::vector<std::int32_t>();
    all.push_back(there ? static_cast<std::int32_t>(values.size()) : -1);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

models::PackedBatch unpacked(const std::vector<std::int32_t>& all) {
  models::PackedBatch batch;
  batch.max_length = all[0];
  auto next = all.begin() + 1;
  for (const auto part : kParts) {
    const std::int64_t n = *next++;
    if (n < 0) continue;
    batch.*part = tensor(std::vector<std::int32_t>(next, next + n), {n}, Device{});
    next += n;
  }
  batch.positions = batch.positions.view({batch.tokens(), 2});
  batch.rows = batch.sentence_ids.size(0);
  return batch;
}

}  // namespace

SentencePipeline::SentencePipeline(models::Loss& loss, std::size_t datasets, int micro_batches,
                                   PipelineOptions options, const Mesh& mesh, DType dtype,
                                   const nn::UnitPolicy& units)
    : loss_(loss),
      transformer_(transformer_of(loss)),
      whole_(if_whole(loss, datasets)),
      micro_batches_(micro_batches),
      options_(std::move(options)),
      mesh_(mesh),
      pipe_(mesh.pipe),
      chunks_(options_.schedule == PipelineKind::interleaved ? 2 : 1) {
  Pipeline::check(options_.schedule, {pipe_.size(), micro_batches, chunks_}, whole_ != nullptr);
  const int stages = pipe_.size() * chunks_;
  if (options_.layers.empty())
    options_.layers =
        balanced_layers(layer_costs(options_.balance, loss, transformer_, mesh), stages);
  stages_ = cut_layers(options_.layers, transformer_.config().num_hidden_layers, stages);
  for (const auto& [name, parameter] : transformer_.named_parameters()) {
    std::size_t& stage = stage_of_[parameter.state().get()];
    if (const auto layer = layer_of(name))
      while (stages_[stage].last <= *layer) ++stage;
    if (name.ends_with("relative_attention_bias.weight")) bias_ = parameter.shape();
  }
  const auto below = stage_of_;
  for (const nn::Parameter& parameter : loss.parameters())
    stage_of_.emplace(parameter.state().get(), stages_.size() - 1);
  const auto place_of = [&](const nn::Unit& unit) -> StageSharding::Place {
    std::set<std::pair<int, bool>> places;
    for (const nn::PlacedParameter& slot : unit.parameters) {
      const autograd::VariableState* const state = slot.parameter.state().get();
      places.emplace(rank_of(stage_of_.at(state)), !below.contains(state));
    }
    if (places.size() > 1)
      fail_setting("fsdp_units", ": '", unit.name,
                   "' has layers of several stages of the pipeline");
    return {places.begin()->first, places.begin()->second};
  };
  sharding_ = std::make_shared<StageSharding>(loss, units, place_of, mesh, dtype);
}

void SentencePipeline::start(const AttachedStrategy& strategy) {
  sharding_->attach(std::make_shared<AttachedStrategy>(strategy));
  transformer_.set_runner(this);
  std::vector<Pipeline::Forward> chunks;
  for (int chunk = 0; chunk < chunks_; ++chunk)
    chunks.push_back(forward_of(chunk * pipe_.size() + pipe_.rank()));
  Pipeline::Options options{.kind = options_.schedule,
                            .micro_batches = micro_batches_,
                            .device = loss_.device(),
                            .module = &sharding_->stage(),
                            .trains =
                                [this](int stage) {
                                  return std::ranges::any_of(stage_of_, [&](const auto& one) {
                                    return one.second == static_cast<std::size_t>(stage) &&
                                           one.first->requires_grad;
                                  });
                                },
                            .scope =
                                [](const PipelineAction& action, int stage) {
                                  return std::make_shared<TimelinePhase>(
                                      str(stage, letter(action.what), action.micro_batch));
                                }};
  if (whole_)
    options.whole_loss = [this](const auto& outputs, auto& grads) {
      return whole_loss(outputs, grads);
    };
  pipeline_.emplace(
      pipe_, std::move(chunks),
      [this](int, int k) { return messages(batches_[static_cast<std::size_t>(k)]); },
      std::move(options));
}

Pipeline::Forward SentencePipeline::forward_of(int stage) {
  const auto place = static_cast<std::size_t>(stage);
  const bool last = place + 1 == stages_.size();
  return [this, layers = stages_[place], last](int k, const Variables& inputs) -> Variables {
    const models::PackedBatch& batch = batches_[static_cast<std::size_t>(k)];
    if (!last) return transformer_.run_layers(layers, batch, inputs);
    received_ = inputs;
    return {whole_ ? whole_->encoder()(batch) : loss_(batch)};
  };
}

std::vector<Pipeline::Message> SentencePipeline::messages(const models::PackedBatch& batch) const {
  const models::EncoderConfig& config = transformer_.config();
  std::vector<Pipeline::Message> all{
      {{batch.tokens(), config.hidden_size}, transformer_.compute_dtype()}};
  if (bias_) all.push_back({*bias_});
  return all;
}

double SentencePipeline::step(std::vector<models::PackedBatch> batches) {
  batches_ = std::move(batches);
  if (whole_) all_ = batches_.at(0);
  if (batches_.size() == 1) batches_ = batches_[0].parts(micro_batches());
  check_same_rows(mesh_.same_rows, mesh_.world.rank(), batches_);
  RINGLET_CHECK_EQ(batches_.size(), static_cast<std::size_t>(micro_batches()),
                   "[pipeline] micro-batches of a step");
  received_.clear();
  for (models::PackedBatch& batch : batches_)
    batch = whole_ ? batch.to(loss_.device()) : loss_.placed(batch);
  const double loss = pipeline_->run();
  sharding_->share_reached();
  return loss;
}

Tensor SentencePipeline::whole_loss(const std::vector<Tensor>& outputs,
                                    std::vector<Tensor>& grads) {
  std::vector<Variable> leaves, ordered;  // (S of the micro-batch, H), and by column
  for (const Tensor& output : outputs) leaves.emplace_back(output, true);
  for (std::int64_t column = 0; column < all_.columns; ++column)
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      const std::int64_t rows = batches_[k].rows;
      ordered.push_back(autograd::slice(leaves[k], column * rows, (column + 1) * rows));
    }
  models::PackedBatch placed = all_;
  if (placed.labels.defined()) placed.labels = placed.labels.to(loss_.device());
  const Variable loss = whole_->of_embeddings(autograd::concat(ordered, 0), placed);
  loss.backward();
  for (const Variable& leaf : leaves) grads.push_back(leaf.grad());
  return loss.tensor();
}

// ---- forwards of other callers --------------------------------------------------------------

Variable SentencePipeline::run(const models::PackedBatch& batch) {
  if (autograd::grad_enabled()) {
    RINGLET_CHECK(
        !received_.empty() && received_[0].size(0) == batch.tokens(),
        "[pipeline] the encoder was called outside a step, or not once for a micro-batch");
    return transformer_.run_layers(stages_.back(), batch, std::exchange(received_, {})).front();
  }
  Variable mine;
  const auto all = comm::all_gather_values(pipe_, packed(batch));
  std::vector<comm::Work> sends;
  for (int owner = 0; owner < pipe_.size(); ++owner) {
    const bool own = owner == pipe_.rank();
    const models::PackedBatch its =
        own ? batch : unpacked(all[static_cast<std::size_t>(owner)]).to(loss_.device());
    const Variables found = run_stages(its, owner, sends);
    if (own) mine = found.front();
  }
  for (const comm::Work& work : sends) work.wait();
  return mine;
}

/// Hidden states (T, H) of the owner's batch, on the owner.
SentencePipeline::Variables SentencePipeline::run_stages(const models::PackedBatch& batch,
                                                         int owner,
                                                         std::vector<comm::Work>& sends) {
  Variables state;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const bool last = stage + 1 == stages_.size();
    const int here = rank_of(stage), next = last ? owner : rank_of(stage + 1);
    if (here == pipe_.rank()) {
      state = transformer_.run_layers(stages_[stage], batch, std::move(state));
      if (last) state.resize(1);
      if (next != here)
        for (const Variable& one : state)
          sends.push_back(pipe_.send(one.tensor(), next, kForwardTag));
    } else if (next == pipe_.rank()) {
      state.clear();
      std::vector<Pipeline::Message> expected = messages(batch);
      if (last) expected.resize(1);
      for (const Pipeline::Message& message : expected) {
        const Tensor received = empty(message.shape, message.dtype, loss_.device());
        pipe_.recv(received, here, kForwardTag).wait();
        state.emplace_back(received);
      }
    }
  }
  return state;
}

}  // namespace ringlet::train
