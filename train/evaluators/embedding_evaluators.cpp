#include "ringlet/train/evaluators/embedding_evaluators.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ringlet/train/data/readers.h"
#include "ringlet/train/evaluators/statistics.h"

namespace ringlet::train {
namespace {

struct Figure {
  const char* name;
  double BinaryScores::*value;
};
constexpr std::array kMetrics{Figure{"accuracy", &BinaryScores::accuracy},
                              Figure{"accuracy_threshold", &BinaryScores::accuracy_threshold},
                              Figure{"f1", &BinaryScores::f1},
                              Figure{"f1_threshold", &BinaryScores::f1_threshold},
                              Figure{"precision", &BinaryScores::precision},
                              Figure{"recall", &BinaryScores::recall},
                              Figure{"ap", &BinaryScores::ap},
                              Figure{"mcc", &BinaryScores::mcc}};
constexpr std::array<std::size_t, 8> kTableOrder{0, 1, 2, 4, 5, 3, 6, 7};

BinaryScores negated_thresholds(BinaryScores scores) {
  scores.accuracy_threshold = 0 - scores.accuracy_threshold;
  scores.f1_threshold = 0 - scores.f1_threshold;
  return scores;
}

}  // namespace

Report EmbeddingEvaluator::report(const models::SentenceEncoder& model,
                                  const EvaluationPoint& at) const {
  std::vector<Tensor> embeddings;
  for (const auto& [texts, role] : columns_)
    embeddings.push_back(encode_as(role, model, texts, {}, at.group));
  return report_of(embeddings, own_similarity(model), at);
}

BinaryClassificationEvaluator::BinaryClassificationEvaluator(const TextDataset& dataset,
                                                             Options options)
    : options_(std::move(options)) {
  if (dataset.columns().size() != 2 || dataset.target() != Target::label || dataset.size() == 0)
    fail_input(dataset.name(), ": expected two sentences and a label, 0 or 1, in each row");
  if (dataset.num_labels() > 2)
    fail_input(dataset.name(), ": expected labels 0 and 1, found ", dataset.num_labels() - 1);
  columns_ = {{column_texts(dataset, 0)}, {column_texts(dataset, 1)}};
  for (std::size_t row = 0; row < dataset.size(); ++row)
    similar_.push_back(dataset.label(row) == 1);
}

Report BinaryClassificationEvaluator::report_of(const std::vector<Tensor>& columns, Similarity own,
                                                const EvaluationPoint& at) const {
  Report report(options_.name);
  BinaryScores most;
  for (const Figure& figure : kMetrics)
    most.*figure.value = -std::numeric_limits<double>::infinity();
  const std::vector<Similarity> similarities = similarities_or(options_.similarities, own);
  for (const Similarity similarity : similarities) {
    BinaryScores found =
        binary_scores(paired_similarities(similarity, columns[0], columns[1]), similar_);
    if (!is_product(similarity)) found = negated_thresholds(found);
    const std::string name = str(kSimilarities(similarity), '_');
    for (const Figure& figure : kMetrics) {
      report.add_metric(name + figure.name, found.*figure.value);
      // NaN stays.
      if (!(found.*figure.value <= most.*figure.value)) most.*figure.value = found.*figure.value;
    }
    for (const std::size_t i : kTableOrder)
      report.add_column(name + kMetrics[i].name, found.*kMetrics[i].value);
  }
  if (similarities.size() > 1)
    for (const Figure& figure : kMetrics)
      report.add_metric(str("max_", figure.name), most.*figure.value);
  report.set_primary(similarities.size() > 1 ? "max_ap"
                                             : str(kSimilarities(similarities.front()), "_ap"));
  report.write("binary_classification_evaluation", at);
  return report;
}

EmbeddingSimilarityEvaluator::EmbeddingSimilarityEvaluator(const std::filesystem::path& file)
    : EmbeddingSimilarityEvaluator(read_dataset(file), Options{.name = file.stem().string()}) {}

EmbeddingSimilarityEvaluator::EmbeddingSimilarityEvaluator(const TextDataset& dataset,
                                                           Options options)
    : options_(std::move(options)) {
  if (dataset.columns().size() != 2 || dataset.target() != Target::score)
    fail_input(dataset.name(), ": expected two sentences and a score in each row");
  columns_ = {{column_texts(dataset, 0)}, {column_texts(dataset, 1)}};
  for (std::size_t row = 0; row < dataset.size(); ++row) scores_.push_back(dataset.score(row));
  const auto [low, high] = std::minmax_element(scores_.begin(), scores_.end());
  if (low == high || *low == *high)
    fail_input(dataset.name(), ": expected scores that differ, found ", scores_.size(), " rows of ",
               scores_.empty() ? 0 : *low);
}

Report EmbeddingSimilarityEvaluator::report_of(const std::vector<Tensor>& columns, Similarity own,
                                               const EvaluationPoint& at) const {
  Report report(options_.name);
  std::vector<double> rs, rhos;
  const std::vector<Similarity> similarities = similarities_or(options_.similarities, own);
  for (const Similarity similarity : similarities) {
    const std::vector<double> values = paired_similarities(similarity, columns[0], columns[1]);
    const std::string name(kSimilarities(similarity));
    rs.push_back(pearson(values, scores_));
    rhos.push_back(spearman(values, scores_));
    report.add_metric("pearson_" + name, rs.back());
    report.add_metric("spearman_" + name, rhos.back());
    report.add_column(name + "_pearson", rs.back());
    report.add_column(name + "_spearman", rhos.back());
  }
  if (similarities.size() > 1) {
    report.add_metric("pearson_max", *std::ranges::max_element(rs));
    report.add_metric("spearman_max", *std::ranges::max_element(rhos));
  }
  report.set_primary(similarities.size() > 1
                         ? "spearman_max"
                         : str("spearman_", kSimilarities(similarities.front())));
  report.write("similarity_evaluation", at);
  return report;
}

TripletEvaluator::TripletEvaluator(const TextDataset& dataset, Options options,
                                   std::map<Similarity, double> margins)
    : options_(std::move(options)), margins_(std::move(margins)) {
  if (dataset.columns().size() != 3 || dataset.size() == 0)
    fail_input(dataset.name(), ": expected an anchor, a positive and a negative in each row");
  columns_ = {{column_texts(dataset, 0), TextRole::query},
              {column_texts(dataset, 1), TextRole::document},
              {column_texts(dataset, 2), TextRole::document}};
}

Report TripletEvaluator::report_of(const std::vector<Tensor>& columns, Similarity own,
                                   const EvaluationPoint& at) const {
  Report report(options_.name);
  double most = 0;
  const std::vector<Similarity> similarities = similarities_or(options_.similarities, own);
  for (const Similarity similarity : similarities) {
    const auto margin = margins_.find(similarity);
    const double more = margin == margins_.end() ? 0 : margin->second;
    const std::vector<double> near = paired_similarities(similarity, columns[0], columns[1]);
    const std::vector<double> far = paired_similarities(similarity, columns[0], columns[2]);
    std::size_t correct = 0;
    for (std::size_t i = 0; i < near.size(); ++i) correct += near[i] > far[i] + more;
    const double accuracy = static_cast<double>(correct) / static_cast<double>(near.size());
    report.add_metric(str(kSimilarities(similarity), "_accuracy"), accuracy);
    report.add_column(str("accuracy_", kSimilarities(similarity)), accuracy);
    most = std::max(most, accuracy);
  }
  if (similarities.size() > 1) {
    report.add_metric("max_accuracy", most);
    report.set_primary("max_accuracy");
  }
  report.write("triplet_evaluation", at);
  return report;
}

MSEEvaluator::MSEEvaluator(Tensor teacher, std::vector<std::string> texts, Options options)
    : name_(std::move(options.name)),
      teacher_(teacher.to_vector<double>()),
      width_(teacher.size(1)) {
  if (texts.empty()) fail_input("mse: expected texts, found none");
  RINGLET_CHECK_EQ(teacher.size(0), std::ssize(texts), "[mse] embeddings of the teacher");
  columns_ = {{std::move(texts)}};
}

Report MSEEvaluator::report_of(const std::vector<Tensor>& columns, Similarity /*own*/,
                               const EvaluationPoint& at) const {
  const Tensor& embeddings = columns[0];
  if (embeddings.size(1) != width_)
    fail_input("mse: expected embeddings of ", width_, " numbers like the teacher's, found ",
               embeddings.size(1));
  const std::vector<double> student = embeddings.to_vector<double>();
  RINGLET_CHECK_EQ(student.size(), teacher_.size(), "[mse] embeddings of both");
  double sum = 0;
  for (std::size_t i = 0; i < student.size(); ++i) {
    const double difference = teacher_[i] - student[i];
    sum += difference * difference;
  }
  const double mse = 100 * sum / static_cast<double>(student.size());
  Report report(name_);
  report.add_metric("negative_mse", -mse);
  report.add_column("MSE", mse);
  report.write(name_.empty() ? "mse_evaluation_" : "mse_evaluation", at);
  return report;
}

RerankingEvaluator::RerankingEvaluator(const std::vector<RerankingSample>& samples,
                                       const std::string& source, Options options)
    : options_(std::move(options)) {
  std::vector<std::string> queries, documents;
  for (const auto& [query, positive, negative] : samples) {
    if (positive.empty() || negative.empty()) continue;
    queries.push_back(query);
    documents.insert(documents.end(), positive.begin(), positive.end());
    documents.insert(documents.end(), negative.begin(), negative.end());
    documents_.push_back({positive.size(), negative.size()});
  }
  if (queries.empty())
    fail_input(source, ": expected a query with positive and negative documents, found none");
  if (options_.at_k < 1) fail_input("reranking at k: expected at least 1, found ", options_.at_k);
  columns_ = {{std::move(queries), TextRole::query}, {std::move(documents), TextRole::document}};
}

Report RerankingEvaluator::report_of(const std::vector<Tensor>& columns, Similarity /*own*/,
                                     const EvaluationPoint& at) const {
  const Tensor query = columns[0].to(Device{}), document = columns[1].to(Device{});
  double map = 0, mrr = 0, gains = 0;
  std::int64_t row = 0;  // of documents
  for (std::size_t q = 0; q < documents_.size(); ++q) {
    std::vector<bool> relevant(documents_[q].positive, true);
    relevant.resize(relevant.size() + documents_[q].negative, false);
    std::vector<double> scores;
    for (std::size_t i = 0; i < relevant.size(); ++i, ++row)
      scores.push_back(similarity_of(options_.similarity,
                                     query[static_cast<std::int64_t>(q)].data<float>(),
                                     document[row].data<float>(), query.size(1)));
    map += average_precision(scores, relevant);
    std::vector<bool> hits;
    for (const std::size_t i : descending_order(scores)) hits.push_back(relevant[i]);
    mrr += reciprocal_rank(hits, options_.at_k);
    gains += ndcg(scores, relevant, options_.at_k);
  }
  const auto count = static_cast<double>(documents_.size());
  Report report(options_.name);
  const auto add = [&](const std::string& key, const std::string& header, double sum) {
    report.add_metric(key, sum / count);
    report.add_column(header, sum / count);
  };
  const std::string at_k = str('@', options_.at_k);
  add("map", "MAP", map);
  add("mrr" + at_k, "MRR" + at_k, mrr);
  add("ndcg" + at_k, "NDCG" + at_k, gains);
  report.set_primary("ndcg" + at_k);
  report.write("RerankingEvaluator", at, "results_" + at_k);
  return report;
}

}  // namespace ringlet::train
