// Evaluators of sentence encoders, with the metrics, names and tables of Sentence Transformers.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/core/base/names.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/sentence_encoder.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/data/dataset.h"
#include "ringlet/train/metrics.h"

namespace ringlet::train {

/// The distances count negatively: a larger value means more similar.
enum class Similarity { cosine, dot, euclidean, manhattan };
inline constexpr Names<Similarity, 4> kSimilarities{"similarity",
                                                    {"cosine", "dot", "euclidean", "manhattan"}};

/// Similarities of row i of `a` and row i of `b`, (n, H) f32 each, computed in f64.
std::vector<double> paired_similarities(Similarity similarity, const Tensor& a, const Tensor& b);

/// Pearson and Spearman correlation of the similarity of two sentences with a gold score.
class EmbeddingSimilarityEvaluator {
 public:
  struct Options {
    std::string name = {};                      // of the data, in metrics and file names
    std::vector<Similarity> similarities = {};  // empty: the model's similarity_fn_name
    models::EncodeOptions encode = {};
  };
  /// Reads the file with read_dataset; its name without the ending is the default name.
  explicit EmbeddingSimilarityEvaluator(const std::filesystem::path& file);
  /// InputError unless it has two columns and scores.
  EmbeddingSimilarityEvaluator(const TextDataset& dataset, Options options);

  /// Spearman under the first similarity, computed by all ranks of the group together.
  double operator()(const models::SentenceEncoder& model, const comm::Group& group = {}) const {
    return evaluate(model, EvaluationPoint{.group = group})[1].second;
  }
  /// "NAME_pearson_cosine", "NAME_spearman_cosine", …; appends a line to
  /// similarity_evaluation_NAME_results.csv if there is an output folder.
  Metrics evaluate(const models::SentenceEncoder& model, const EvaluationPoint& at = {}) const;
  /// The same for given embeddings, (rows, H) of each column; by cosine if the options name no
  /// similarity.
  Metrics evaluate(const Tensor& first, const Tensor& second,
                   const EvaluationPoint& at = {}) const {
    return correlate(first, second, Similarity::cosine, at);
  }

 private:
  /// By the similarities of the options, or by `otherwise` if there are none.
  Metrics correlate(const Tensor& first, const Tensor& second, Similarity otherwise,
                    const EvaluationPoint& at) const;

  Options options_;
  std::vector<std::string> first_, second_;
  std::vector<double> scores_;
};

/// Accuracy on labelled pairs.
class LabelAccuracyEvaluator {
 public:
  struct Options {
    std::string name = {};
    std::size_t batch_size = 32;
  };
  /// InputError unless it has labels.
  LabelAccuracyEvaluator(std::shared_ptr<const TextDataset> dataset, Options options);

  /// "NAME_accuracy"; appends a line to accuracy_evaluation_NAME_results.csv if there is an output
  /// folder. `loss` has logits(batch), (rows, classes), like SoftmaxLoss, and
  /// `tokenizer` is its encoder's. Dropout is off during the evaluation. A label without a class is
  /// InputError.
  template <class Loss>
  Metrics evaluate(Loss& loss, const models::Tokenizer& tokenizer,
                   const EvaluationPoint& at = {}) const {
    return run(
        loss, [&](const models::PackedBatch& batch) { return loss.logits(batch); }, tokenizer, at);
  }

 private:
  using Logits = std::function<Variable(const models::PackedBatch&)>;
  Metrics run(nn::Module& module, const Logits& logits, const models::Tokenizer& tokenizer,
              const EvaluationPoint& at) const;

  Options options_;
  std::shared_ptr<const TextDataset> dataset_;
};

}  // namespace ringlet::train
