#include "ringlet/train/cli/evaluation_data.h"

#include <fmt/ranges.h>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/folder.h"
#include "ringlet/nn/module_file.h"
#include "ringlet/train/data/readers.h"
#include "ringlet/train/data/retrieval.h"
#include "ringlet/train/data/rows.h"
#include "ringlet/train/evaluators/classification.h"
#include "ringlet/train/evaluators/embedding_evaluators.h"
#include "ringlet/train/evaluators/information_retrieval_evaluator.h"

namespace ringlet::cli {
namespace {

using train::Target;
using train::TextDataset;

std::string place(const EvaluationSource& source) { return source.option + ' ' + source.file; }

template <class Evaluator>
std::shared_ptr<const train::Evaluator> of_rows(const TextDataset& rows,
                                                const train::SimilarityOptions& options) {
  return std::make_shared<Evaluator>(rows, options);
}

/// An evaluator of rows: by default the first that fits their columns.
struct KindOfRows {
  EvaluatorKind kind;
  std::size_t columns;
  std::optional<Target> target;  // none: any
  const char* unit;
  decltype(&of_rows<train::TripletEvaluator>)
      make;  // null: by set_classifier, where there are classes
};
constexpr KindOfRows kKindsOfRows[] = {
    {EvaluatorKind::triplet, 3, {}, "triplets", of_rows<train::TripletEvaluator>},
    {EvaluatorKind::similarity, 2, Target::score, "pairs",
     of_rows<train::EmbeddingSimilarityEvaluator>},
    {EvaluatorKind::accuracy, 2, Target::label, "pairs", nullptr},
    {EvaluatorKind::binary, 2, Target::label, "pairs",
     of_rows<train::BinaryClassificationEvaluator>},
};

/// Null if the rows have no evaluator.
const KindOfRows* kind_of_rows(const TextDataset& data, const std::optional<EvaluatorKind>& chosen,
                               int classes) {
  for (const KindOfRows& one : kKindsOfRows)
    if (chosen
            ? one.kind == chosen
            : one.columns == data.columns().size() &&
                  one.target.value_or(data.target()) == data.target() && (one.make || classes > 0))
      return &one;
  return nullptr;
}

EvaluationData rows_data(std::shared_ptr<const TextDataset> dataset, const KindOfRows& kind,
                         const train::SimilarityOptions& options) {
  return {.name = options.name,
          .dataset = dataset,
          .evaluator = kind.make ? kind.make(*dataset, options) : nullptr,
          .rows = dataset->size(),
          .unit = kind.unit,
          .label_accuracy = kind.make == nullptr,
          .reports = {dataset->report()}};
}

EvaluationData retrieval_data(const EvaluationSource& source, const std::string& name) {
  const train::RetrievalData data =
      train::read_retrieval({source.file, source.corpus, source.queries, source.read.split});
  const auto evaluator = std::make_shared<train::InformationRetrievalEvaluator>(
      data, train::InformationRetrievalEvaluator::Options{.name = name,
                                                          .similarities = source.similarities});
  return {.name = name,
          .evaluator = evaluator,
          .rows = evaluator->queries(),
          .unit = "queries",
          .reports = {data.report, data.queries.report, data.corpus.report}};
}

EvaluationData reranking_data(const EvaluationSource& source, const std::string& name) {
  if (source.similarities.size() > 1)
    fail_input("--similarity: reranking has one, found ", source.similarities.size());
  const train::RerankingData data = train::read_reranking(source.file, source.read.split);
  const auto evaluator = std::make_shared<train::RerankingEvaluator>(
      data.samples, source.file,
      train::RerankingEvaluator::Options{.name = name,
                                         .similarity = source.similarities.empty()
                                                           ? train::Similarity::cosine
                                                           : source.similarities.front()});
  return {.name = name,
          .evaluator = evaluator,
          .rows = evaluator->queries(),
          .unit = "queries",
          .reports = {data.report}};
}

void check_classes(const EvaluationSource& source, const TextDataset& dataset) {
  if (dataset.columns().size() != 2 || dataset.target() != Target::label)
    fail_input(place(source), ": expected pairs of sentences with labels");
  if (source.classes == 0)
    fail_input("label-accuracy: the model's folder has no classifier.safetensors, which train ",
               "writes after a softmax loss");
  if (!source.similarities.empty()) fail_input("--similarity: label-accuracy has none");
  if (dataset.num_labels() > source.classes)
    fail_input(place(source), ": label ", dataset.num_labels() - 1, " is none of the ",
               source.classes, " classes trained");
}

/// The kind that the columns of a file determine without its rows.
std::optional<EvaluatorKind> kind_of_file(const EvaluationSource& source) {
  const auto rows =
      train::open_rows(train::LineReader(source.file), train::parse_renames(source.read.columns));
  train::refuse_trec(*rows);
  const std::vector<std::string> columns = rows->columns();
  if (train::is_qrels(columns)) return EvaluatorKind::retrieval;
  if (train::is_reranking(columns)) return EvaluatorKind::reranking;
  return std::nullopt;
}

}  // namespace

void EvaluationData::set_classifier(const std::shared_ptr<models::SoftmaxLoss>& classifier,
                                    std::size_t batch_size) {
  if (label_accuracy)
    evaluator = std::make_shared<train::LabelAccuracyEvaluator>(
        dataset, classifier, train::LabelAccuracyEvaluator::Options{name, batch_size});
}

EvaluationData read_evaluation_data(const EvaluationSource& source, const std::string& name) {
  const std::optional<EvaluatorKind> of_file = source.kind ? source.kind : kind_of_file(source);
  if (!(of_file == EvaluatorKind::retrieval) && !(source.corpus.empty() && source.queries.empty()))
    fail_input(source.corpus.empty() ? "--queries" : "--corpus",
               ": needs information retrieval: columns query-id, corpus-id and score in ",
               source.file);
  if (of_file == EvaluatorKind::retrieval) return retrieval_data(source, name);
  if (of_file == EvaluatorKind::reranking) return reranking_data(source, name);
  const auto dataset =
      std::make_shared<const TextDataset>(train::read_dataset(source.file, source.read));
  const KindOfRows* const kind = kind_of_rows(*dataset, source.kind, source.classes);
  if (!kind && source.has_loss && source.has_loss(*dataset))
    return {.name = name,
            .dataset = dataset,
            .rows = dataset->size(),
            .unit = "rows",
            .reports = {dataset->report()}};
  if (!kind)
    fail_input(place(source),
               ": expected pairs of sentences with scores or labels, triplets, relevant pairs "
               "(query-id, corpus-id, score), or a query with positive and negative texts; found ",
               fmt::format("{}", fmt::join(dataset->columns(), ", ")));
  if (kind->kind == EvaluatorKind::similarity && dataset->size() < 2)
    fail_input(place(source), ": expected at least two rows");
  if (kind->kind == EvaluatorKind::accuracy) check_classes(source, *dataset);
  return rows_data(dataset, *kind, {name, source.similarities});
}

EvaluationData evaluation_data(std::shared_ptr<const TextDataset> dataset,
                               const std::string& name) {
  return rows_data(dataset, *kind_of_rows(*dataset, {}, /*classes=*/1), {name, {}});
}

// ---- the classifier of a trained SoftmaxLoss, next to the encoder in its folder ----

namespace {

constexpr const char* kHead = "classifier.safetensors";

nn::Module& classifier_of(models::SoftmaxLoss& loss) {
  nn::Module* found = nullptr;
  loss.visit([&](const std::string& name, nn::Module& module) {
    if (name == "classifier") found = &module;
  });
  RINGLET_CHECK(found, "[classifier] the loss has none");
  return *found;
}

}  // namespace

void save_head(models::SoftmaxLoss& loss, const std::filesystem::path& folder) {
  nn::save_module(classifier_of(loss), folder / kHead);
}

int head_labels(const std::filesystem::path& folder) {
  const std::filesystem::path path = models::cached_folder(folder) / kHead;
  if (!path_exists(path)) return 0;
  const SafeTensors file = SafeTensors::open(path);
  if (!file.contains("weight") || file.shape("weight").dim() != 2)
    fail_input(path.string(), ": expected a tensor 'weight' of two dimensions");
  return static_cast<int>(file.shape("weight")[0]);
}

std::shared_ptr<models::SoftmaxLoss> read_head(const std::filesystem::path& folder,
                                               const models::SentenceEncoder& encoder) {
  const auto loss = std::make_shared<models::SoftmaxLoss>(encoder, head_labels(folder));
  nn::load_module(classifier_of(*loss), models::cached_folder(folder) / kHead);
  return loss;
}

}  // namespace ringlet::cli
