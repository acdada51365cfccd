#include "ringlet/models/losses/embedding_loss.h"

#include "ringlet/autograd/checkpoint.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/autograd/node.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::models {
namespace {

/// Backward from `value` must begin with 1, as the gradients of the other logical ranks' rows did.
Variable from_one(const Variable& value) {
  return autograd::record(
      "logical_rank", value.tensor(), {value}, [](const Tensor& grad, autograd::Gradients& grads) {
        RINGLET_CHECK(grad.item<double>() == 1, "[loss] its gradient is ", grad.item<double>(),
                      ": a loss that compares the rows of "
                      "logical ranks is not scaled");
        grads[0].set(grad);
      });
}

}  // namespace

EmbeddingLoss::EmbeddingLoss(SentenceEncoder encoder, LossTraits traits, Value value)
    : encoder_(std::move(encoder)), traits_(std::move(traits)), value_(std::move(value)) {
  register_module("", encoder_.modules());
}

void EmbeddingLoss::take_settings(const nn::Module& original) {
  negatives_ = dynamic_cast<const EmbeddingLoss&>(original).negatives_;
}

Variable EmbeddingLoss::forward(const PackedBatch& batch) {
  if (!cuts(batch)) return of_embeddings(encoder_(batch), batch);
  PackedBatch placed = batch;
  if (placed.labels.defined()) placed.labels = placed.labels.to(device());
  if (!batch.block || !autograd::grad_enabled()) return of_embeddings(embed(batch), placed);
  BatchBlock& block = *batch.block;
  // A forward that comes again may be of other weights.
  if (!block.rows || block.forwards.contains(batch.forward_in_block)) compare_block(block);
  block.forwards.insert(batch.forward_in_block);
  const Variable embeddings = embed(batch);
  block.rows->start(batch.place_in_block);
  return from_one(of_embeddings(embeddings, placed));
}

// The embeddings of all of a rank's logical ranks are computed first, without a tape, and compared.
// Each one's forward, later, gets the rows of the others, and its backward the gradients of theirs.
void EmbeddingLoss::compare_block(BatchBlock& block) const {
  const auto sharding = nn::sharding_of(*this);
  RINGLET_CHECK(sharding, "[", kind(), "] a rank has several logical ones: attach a strategy");
  const RandomGenerator generator = default_generator();
  std::vector<PackedBatch> batches = block.batches;
  std::vector<Variable> embeddings, values(batches.size());
  std::vector<std::int64_t> counts;
  const auto compared = std::make_shared<BatchBlock>();
  // Forwards may be collective: a rank with fewer logical ranks then adds one.
  const auto more = sharding->forwards_together(std::ssize(batches)) - std::ssize(batches);
  for (std::int64_t i = 0; i < more; ++i) {
    const GeneratorGuard random(generator);
    const autograd::NoGrad no_grad;
    embed(batches.front());
  }
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const GeneratorGuard random(generator);
    const autograd::NoGrad no_grad;
    counts.push_back(batches[i].rows);
    embeddings.emplace_back(embed(batches[i]).tensor(), true);
    if (batches[i].labels.defined()) batches[i].labels = batches[i].labels.to(device());
    batches[i].block = compared;
  }
  const auto rows =
      std::make_shared<nn::BlockRows>(sharding->group(), counts, sharding->logical_ranks());
  compared->rows = rows;
  for (bool complete = false; !complete;) {
    complete = true;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      if (values[i].defined()) continue;
      rows->start(i);
      try {
        values[i] = of_embeddings(embeddings[i], batches[i]);
      } catch (const nn::BlockRows::Missing&) {
        complete = false;
      }
    }
  }
  for (std::size_t gather = rows->gathers(); gather-- > 0;)
    if (rows->collect(gather))
      for (const Variable& value : values)
        autograd::run_backward(value, Tensor(), {.retain_graph = true, .fire_hooks = false});
  block.rows = rows;
  block.forwards.clear();
}

// Piece by piece; ordered by column like the whole batch's.
Variable EmbeddingLoss::embed(const PackedBatch& batch) const {
  const std::int64_t rows = batch.forward_rows;
  if (rows == 0) return encoder_(batch.to(device()));
  std::int64_t pieces = std::max<std::int64_t>(1, (batch.rows + rows - 1) / rows);
  // Forwards may be collective: a rank with fewer rows then adds empty pieces.
  if (const auto sharding = nn::sharding_of(*this)) pieces = sharding->forwards_together(pieces);
  if (pieces == 1) return encoder_(batch.to(device()));
  std::vector<std::vector<Variable>> columns(static_cast<std::size_t>(batch.columns));
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t begin = std::min(batch.rows, piece * rows);
    const std::int64_t end = std::min(batch.rows, begin + rows);
    const PackedBatch part = batch.rows_between(begin, end).to(device());
    const Variable embeddings =
        autograd::checkpoint([encoder = encoder_, part](const Variable&) { return encoder(part); },
                             Variable(empty({0}, DType::f32, device())));
    for (std::int64_t c = 0; c < batch.columns; ++c)
      columns[static_cast<std::size_t>(c)].push_back(
          autograd::slice(embeddings, c * part.rows, (c + 1) * part.rows));
  }
  std::vector<Variable> ordered;
  for (const std::vector<Variable>& column : columns)
    ordered.insert(ordered.end(), column.begin(), column.end());
  return autograd::concat(ordered, 0);
}

bool EmbeddingLoss::compares_peers() const {
  if (!traits_.compares_rows || negatives_ == Negatives::local || !autograd::grad_enabled())
    return false;
  const auto sharding = nn::sharding_of(*this);
  return devices_ || (sharding && sharding->group().size() > 1);
}

// The ranks or devices that share the global batch with this one.
comm::Group EmbeddingLoss::peers() const {
  if (!compares_peers()) return {};
  return devices_ ? devices_() : nn::sharding_of(*this)->group();
}

}  // namespace ringlet::models
