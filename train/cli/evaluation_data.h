// A file to evaluate on, the evaluator that its columns call for, and the classifier of label
// accuracy.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/core/base/names.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/train/data/dataset.h"
#include "ringlet/train/data/read_options.h"
#include "ringlet/train/data/rows.h"
#include "ringlet/train/evaluators/evaluator.h"
#include "ringlet/train/evaluators/search/similarity.h"

namespace ringlet::cli {

enum class EvaluatorKind { similarity, binary, accuracy, triplet, retrieval, reranking };
inline constexpr EnumNames<EvaluatorKind, 6> kEvaluators{
    "evaluator",
    {"embedding-similarity", "binary-classification", "label-accuracy", "triplet",
     "information-retrieval", "reranking"}};

struct EvaluationData {
  std::string name = {};  // in metrics and names of tables
  /// The rows; null for retrieval and reranking.
  std::shared_ptr<const train::TextDataset> dataset = {};
  /// Null if none suits, and for label accuracy until set_classifier.
  std::shared_ptr<const train::Evaluator> evaluator = {};
  std::size_t rows = 0;   // or queries
  const char* unit = "";  // "pairs"
  bool label_accuracy = false;
  std::optional<std::size_t> source = {};  // the training data with its loss
  std::vector<train::FileReport> reports = {};

  /// Makes the evaluator of label accuracy.
  void set_classifier(const std::shared_ptr<models::SoftmaxLoss>& classifier,
                      std::size_t batch_size = 32);
};

struct EvaluationSource {
  std::string option = "--data";  // in messages
  std::string file = {};
  train::ReadOptions read = {};
  int classes = 0;                                   // of the trained classifier; 0: there is none
  std::optional<EvaluatorKind> kind = {};            // unset: by the columns
  std::vector<train::Similarity> similarities = {};  // empty: the model's
  std::string corpus = {}, queries = {};             // files of retrieval; empty: next to `file`
  /// Whether a loss is trained on such rows. They then need no evaluator.
  std::function<bool(const train::TextDataset&)> has_loss = {};
};

/// By the columns of the file:
///   query-id, corpus-id, score       information retrieval, with the files corpus and queries
///   query, positive[], negative[]    reranking
///   two texts and a score            embedding similarity
///   two texts and a label            label accuracy if there are classes, else binary
///                                    classification of labels 0 and 1
///   three texts                      triplet
/// InputError for other columns without a loss, and for those that the chosen evaluator cannot use.
EvaluationData read_evaluation_data(const EvaluationSource& source, const std::string& name);

/// The same for rows in memory, with a classifier if they have labels.
EvaluationData evaluation_data(std::shared_ptr<const train::TextDataset> dataset,
                               const std::string& name);

/// Writes FOLDER/classifier.safetensors: weight (labels, 3 H) and bias. Other libraries ignore the
/// file. Every rank calls it, rank 0 writes.
void save_head(models::SoftmaxLoss& loss, const std::filesystem::path& folder);
/// The labels of the folder's classifier; 0 if it has none.
int head_labels(const std::filesystem::path& folder);
/// The encoder of this folder with its classifier, which must be there.
std::shared_ptr<models::SoftmaxLoss> read_head(const std::filesystem::path& folder,
                                               const models::SentenceEncoder& encoder);

}  // namespace ringlet::cli
