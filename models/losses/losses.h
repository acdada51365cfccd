// The losses of Sentence Transformers, by its names: each a function of embeddings, with options.
#pragma once

#include <vector>

#include "ringlet/core/base/names.h"
#include "ringlet/models/losses/embedding_loss.h"
#include "ringlet/nn/linear.h"

namespace ringlet::models {

enum class Distance : std::uint8_t { cosine, euclidean, manhattan };
inline constexpr EnumNames<Distance, 3> kDistances{"distance",
                                                   {"cosine", "euclidean", "manhattan"}};

/// Options of the losses with a margin between distances.
struct MarginOptions {
  Distance distance = Distance::euclidean;
  double margin = 5;

  std::string settings() const {
    return str(", margin ", margin, ", distance ", kDistances(distance));
  }
};

/// Cross-entropy of Linear(3 H, labels)(u, v, |u - v|); batches are pairs with i64 class labels.
/// Reimers and Gurevych, Sentence-BERT, 2019.
class SoftmaxLoss final : public EmbeddingLoss {
 public:
  SoftmaxLoss(SentenceEncoder encoder, std::int64_t labels);
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<SoftmaxLoss>(encoder_of(cloner), num_labels());
  }
  Variable logits(const PackedBatch& batch);  // (rows, labels)
  std::int64_t num_labels() const { return classifier_->weight.size(0); }

 private:
  Variable classify(const Variable& embeddings, const PackedBatch& batch) const;

  std::shared_ptr<nn::Linear> classifier_;
};

/// Mean over rows of (cos(u, v) - score)^2; batches are pairs with f32 scores.
struct CosineSimilarityLoss final : EmbeddingLoss {
  explicit CosineSimilarityLoss(SentenceEncoder encoder);
};

/// Mean over rows, columns and elements of (embedding - label)^2. Every sentence of a row has the
/// row's label, a teacher's embedding, (rows, H) f32. Knowledge distillation, or a language learned
/// from translations (Reimers and Gurevych 2020).
struct MSELoss final : EmbeddingLoss {
  explicit MSELoss(SentenceEncoder encoder);
};

/// ln(1 + the sum of exp(scale (s_j - s_i)) over rows with score_i > score_j), of the rows that
/// Negatives tells; s is the cosine of a pair. Batches have scores of any range or class labels.
/// Every rank computes the whole value, in f64 and O(rows log rows), and returns its rows' share.
/// Huang et al., CoSENT, 2024.
struct CoSENTLoss final : EmbeddingLoss {
  explicit CoSENTLoss(SentenceEncoder encoder, double scale = 20);
};

/// CoSENTLoss of the similarity of angles in the complex plane, |cos + sin|. Rows are an anchor and
/// one or more texts: the first has the row's score y, or 1 without scores, the others have 1 - y.
/// Li and Li, AnglE-optimized Text Embeddings, 2024.
struct AnglELoss final : EmbeddingLoss {
  explicit AnglELoss(SentenceEncoder encoder, double scale = 20);
};

struct RankingOptions {
  double scale = 20;       // of the cosines, 1 / temperature
  bool symmetric = false;  // each positive should find its anchor among all anchors, too
};

/// Cross-entropy of scale * cos(anchor, candidate) with the row's own positive as target; if
/// symmetric, the mean with that of scale * cos(positive, anchor). Rows are an anchor, its positive
/// and any number of negatives. The candidates are all positives, then all negatives, of the rows
/// that Negatives tells. Needs at least two rows, with negatives one. Henderson et al., Efficient
/// Natural Language Response Suggestion, 2017.
struct MultipleNegativesRankingLoss final : EmbeddingLoss {
  explicit MultipleNegativesRankingLoss(SentenceEncoder encoder, RankingOptions options = {});
};

/// Mean over rows of max(0, D(anchor, positive) - D(anchor, negative) + margin).
struct TripletLoss final : EmbeddingLoss {
  explicit TripletLoss(SentenceEncoder encoder, MarginOptions options = {});
};

/// The margin is that of pairs with label 0.
inline constexpr MarginOptions kContrastiveMargin{.distance = Distance::cosine, .margin = 0.5};

/// Mean over rows of (y D^2 + (1 - y) max(0, margin - D)^2) / 2; batches are pairs with labels or
/// scores y from 0 to 1. Hadsell et al., Dimensionality Reduction by Learning an Invariant Mapping,
/// 2006.
struct ContrastiveLoss final : EmbeddingLoss {
  explicit ContrastiveLoss(SentenceEncoder encoder, MarginOptions options = kContrastiveMargin);
};

/// The sum of D^2 over positives that are farther than some negative. Negatives that are nearer
/// than some positive add max(0, margin - D)^2. The rows are those that enum Negatives tells. Where
/// a kind is missing, the mean of the other's distances takes its place.
struct OnlineContrastiveLoss final : EmbeddingLoss {
  explicit OnlineContrastiveLoss(SentenceEncoder encoder,
                                 MarginOptions options = kContrastiveMargin);
};

/// Mean over rows of max(0, hp - hn + margin): hp is the largest distance to a text with the row's
/// label, or 0 without one; hn is the smallest distance to another label, or the largest distance
/// without one. Rows are one text with a class label, among the rows that Negatives tells. Batches
/// need several rows of each label (BatchSampler::group_by_label). The distance is euclidean or
/// cosine. Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017.
struct BatchHardTripletLoss final : EmbeddingLoss {
  explicit BatchHardTripletLoss(SentenceEncoder encoder, MarginOptions options = {});
};

/// The sum over `dims` of the inner loss of the first values of each embedding, normalised again.
/// The encoder runs once. Kusupati et al., Matryoshka Representation Learning, 2022.
class MatryoshkaLoss final : public EmbeddingLoss {
 public:
  /// InputError when a dimension is not from 1 to the encoder's or occurs twice. `inner` has no
  /// parameters of its own: their shapes would depend on the length.
  MatryoshkaLoss(std::shared_ptr<EmbeddingLoss> inner, std::vector<std::int64_t> dims);

  std::string describe(std::size_t dataset) const override;
  bool is_capturable() const override { return inner_->is_capturable(); }
  bool spans_ranks(std::size_t dataset) const override { return inner_->spans_ranks(dataset); }
  std::int64_t min_rows(std::size_t dataset, std::int64_t columns) const override {
    return inner_->min_rows(dataset, columns);
  }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<MatryoshkaLoss>(cloner(inner_), dims_);
  }
  void set_negatives(Negatives negatives) override { inner_->set_negatives(negatives); }

 private:
  std::shared_ptr<EmbeddingLoss> inner_;
  std::vector<std::int64_t> dims_;  // descending
};

}  // namespace ringlet::models
