// Losses of sentence embeddings: the encoder, its forwards, and the rows that a loss compares.
#pragma once

#include <array>
#include <functional>

#include "ringlet/autograd/functions.h"
#include "ringlet/core/base/names.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/losses/loss.h"
#include "ringlet/models/sentence_encoder.h"
#include "ringlet/nn/global_rows.h"

namespace ringlet::models {

/// An anchor is compared with the rows of the global batch, over all ranks and devices, or with
/// those of its own rank or device. Without gradients they are the batch's.
enum class Negatives : std::uint8_t { global, local };
inline constexpr EnumNames<Negatives, 2> kNegatives{"negatives", {"global", "local"}};

struct LossTraits {
  const char* kind;                          // the class, a literal
  std::string settings = "";                 // the options in describe(): ", scale 20"
  bool compares_rows = false;                // a row's value depends on other rows
  bool reads_back = false;                   // on the host: a step cannot be captured
  std::int64_t min_rows = 1;                 // Loss::min_rows, of one or two texts
  std::int64_t min_rows_with_negatives = 0;  // of more; 0: the same
};

/// A loss is a function of the embeddings of a batch, and its traits. If the batch has
/// forward_rows, the encoder takes so many rows at a time without a tape. Backward runs each piece
/// again, as in Gao et al., Scaling Deep Contrastive Learning, 2021. Memory is then that of one
/// piece. Dropout masks are those of the whole batch.
class EmbeddingLoss : public Loss {
 public:
  /// Embeddings are (S, H) in the order of the batch's sentences. Copies of a loss have the same
  /// function: it uses its argument `loss`, not a captured one.
  using Value = std::function<Variable(const Variable& embeddings, const PackedBatch& batch,
                                       const EmbeddingLoss& loss)>;
  EmbeddingLoss(SentenceEncoder encoder, LossTraits traits, Value value);

  const char* kind() const override { return traits_.kind; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<EmbeddingLoss>(encoder_of(cloner), traits_, value_);
  }
  bool is_capturable() const override { return !traits_.reads_back && !compares_peers(); }
  bool cuts(const PackedBatch& batch) const override {
    return batch.forward_rows > 0 || batch.block;
  }
  bool spans_ranks(std::size_t /*dataset*/) const override {
    return traits_.compares_rows && negatives_ == Negatives::global;
  }
  std::int64_t min_rows(std::size_t /*dataset*/, std::int64_t columns) const override {
    const bool more = columns > 2 && traits_.min_rows_with_negatives > 0;
    return more ? traits_.min_rows_with_negatives : traits_.min_rows;
  }
  std::string describe(std::size_t dataset) const override {
    const char* const negatives = spans_ranks(dataset) ? ", global negatives" : ", local negatives";
    return str(kind(), traits_.settings, traits_.compares_rows ? negatives : "");
  }
  void take_settings(const nn::Module& original) override;

  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const {
    return value_(embeddings, batch, *this);
  }
  /// The rows that a row is compared with. Collective if they are those of all ranks.
  nn::GlobalRows global_rows(const PackedBatch& batch) const {
    if (batch.block && batch.block->rows && autograd::grad_enabled())
      return nn::GlobalRows(batch.block->rows);
    return {peers(), batch.rows};
  }

  const SentenceEncoder& encoder() const { return encoder_; }
  virtual void set_negatives(Negatives negatives) { negatives_ = negatives; }
  /// Gives the devices that share a batch, where no strategy over ranks does; called at each use.
  void set_devices(std::function<const comm::Group&()> devices) { devices_ = std::move(devices); }

 protected:
  Variable forward(const PackedBatch& batch) override;

  /// The encoder of a copy of this loss.
  SentenceEncoder encoder_of(nn::Cloner& cloner) const {
    return encoder_.around(cloner(encoder_.modules()));
  }

 private:
  Variable embed(const PackedBatch& batch) const;
  void compare_block(BatchBlock& block) const;
  bool compares_peers() const;
  comm::Group peers() const;

  SentenceEncoder encoder_;
  LossTraits traits_;
  Value value_;
  Negatives negatives_ = Negatives::global;
  std::function<const comm::Group&()> devices_;
};

/// Column `c` of the embeddings (S, H): (rows, H).
inline Variable column(const Variable& embeddings, const PackedBatch& batch, std::int64_t c) {
  return autograd::slice(embeddings, c * batch.rows, (c + 1) * batch.rows);
}

template <std::size_t n>
std::array<Variable, n> columns(const char* loss, const Variable& embeddings,
                                const PackedBatch& batch) {
  RINGLET_CHECK_EQ(batch.columns, static_cast<std::int64_t>(n), "[", loss, "] sentences per row");
  std::array<Variable, n> out;
  for (std::size_t c = 0; c < n; ++c)
    out[c] = column(embeddings, batch, static_cast<std::int64_t>(c));
  return out;
}

inline void check_labels(const char* loss, const PackedBatch& batch) {
  RINGLET_CHECK(batch.labels.defined(), "[", loss, "] the batch has no labels");
  check_shape(loss, "labels", batch.labels, {batch.rows});
}

inline void check_labels(const char* loss, const PackedBatch& batch, DType dtype) {
  check_labels(loss, batch);
  RINGLET_CHECK_EQ(batch.labels.dtype(), dtype, "[", loss,
                   "] labels (classes are i64, scores f32)");
}

}  // namespace ringlet::models
