// Losses of sentence embeddings: the encoder, its forwards, and the rows that a loss compares.
#pragma once

#include <functional>

#include "ringlet/core/base/names.h"
#include "ringlet/models/losses/loss.h"
#include "ringlet/models/sentence_encoder.h"
#include "ringlet/nn/global_rows.h"

namespace ringlet::models {

/// An anchor is compared with the rows of the global batch, over all ranks and devices, or with
/// those of its own rank or device. Without gradients they are the batch's.
enum class Negatives : std::uint8_t { global, local };
inline constexpr Names<Negatives, 2> kNegatives{"negatives", {"global", "local"}};

/// A loss of the embeddings of a batch. If the batch has forward_rows, the encoder takes so many
/// rows at a time without a tape. Backward runs each piece again, as in Gao et al., Scaling Deep
/// Contrastive Learning, 2021. Memory is then that of one piece. Dropout masks are those of the
/// whole batch.
class EmbeddingLoss : public Loss {
 public:
  bool is_capturable() const override { return !compares_peers(); }
  bool cuts(const PackedBatch& batch) const override { return batch.forward_rows > 0; }
  bool spans_ranks(std::size_t /*dataset*/) const override {
    return compares_rows() && negatives_ == Negatives::global;
  }
  std::string describe(std::size_t dataset) const override {
    const char* const negatives = spans_ranks(dataset) ? ", global negatives" : ", local negatives";
    return str(kind(), settings(), compares_rows() ? negatives : "");
  }
  void take_settings(const nn::Module& original) override;

  /// The loss of given embeddings, (S, H) in the order of the batch's sentences.
  virtual Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const = 0;

  const SentenceEncoder& encoder() const { return encoder_; }
  virtual void set_negatives(Negatives negatives) { negatives_ = negatives; }
  /// Gives the devices that share a batch, where no strategy over ranks does; called at each use.
  void set_devices(std::function<const comm::Group&()> devices) { devices_ = std::move(devices); }

 protected:
  explicit EmbeddingLoss(SentenceEncoder encoder);
  /// Whether a row's value depends on other rows.
  virtual bool compares_rows() const { return false; }
  /// The options after the class in describe(): ", scale 20".
  virtual std::string settings() const { return ""; }
  Variable forward(const PackedBatch& batch) override;

  /// The encoder of a copy of this loss.
  SentenceEncoder encoder_of(nn::Cloner& cloner) const {
    return encoder_.around(cloner(encoder_.modules()));
  }
  nn::GlobalRows global_rows(const PackedBatch& batch) const { return {peers(), batch.rows}; }

 private:
  Variable embed(const PackedBatch& batch) const;
  bool compares_peers() const;
  comm::Group peers() const;

  SentenceEncoder encoder_;
  Negatives negatives_ = Negatives::global;
  std::function<const comm::Group&()> devices_;
};

}  // namespace ringlet::models
