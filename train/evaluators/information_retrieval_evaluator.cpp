#include "ringlet/train/evaluators/information_retrieval_evaluator.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "ringlet/train/evaluators/statistics.h"

namespace ringlet::train {
namespace {

using Hits = std::vector<bool>;  // whether the document of each rank is relevant
using Cutoffs = RetrievalCutoffs;

/// Calls visit(rank from 1) for each hit up to rank k.
template <class Visit>
void for_hits(const Hits& hits, std::int64_t k, Visit visit) {
  for (std::int64_t rank = 1; rank <= std::min(k, std::ssize(hits)); ++rank)
    if (hits[static_cast<std::size_t>(rank - 1)]) visit(rank);
}

double count_hits(const Hits& hits, std::int64_t k) {
  double found = 0;
  for_hits(hits, k, [&](std::int64_t) { ++found; });
  return found;
}

double discounted_gain(const Hits& hits, std::int64_t k) {
  double sum = 0;
  for_hits(hits, k, [&](std::int64_t rank) { sum += gain(rank); });
  return sum;
}

double summed_precision(const Hits& hits, std::int64_t k) {
  double sum = 0, found = 0;
  for_hits(hits, k, [&](std::int64_t rank) { sum += ++found / static_cast<double>(rank); });
  return sum;
}

/// A figure of a query with `relevant` documents, at least 1.
struct RetrievalFigure {
  const char* key;  // "ndcg" of "ndcg@10"
  const char* title;
  std::vector<std::int64_t> Cutoffs::*at_k;
  double (*value)(const Hits& hits, std::int64_t k, std::int64_t relevant);

  std::string metric(std::int64_t k) const { return str(key, '@', k); }
};
constexpr std::array<RetrievalFigure, 6> kRetrievalFigures{{
    {"accuracy", "Accuracy", &Cutoffs::accuracy_at_k,
     [](const Hits& hits, auto k, auto) { return count_hits(hits, k) > 0 ? 1.0 : 0.0; }},
    {"precision", "Precision", &Cutoffs::precision_recall_at_k,
     [](const Hits& hits, auto k, auto) { return count_hits(hits, k) / static_cast<double>(k); }},
    {"recall", "Recall", &Cutoffs::precision_recall_at_k,
     [](const Hits& hits, auto k, auto all) {
       return count_hits(hits, k) / static_cast<double>(all);
     }},
    {"ndcg", "NDCG", &Cutoffs::ndcg_at_k,
     [](const Hits& hits, auto k, auto all) {
       return discounted_gain(hits, k) / ideal_gain(std::min(k, all));
     }},
    {"mrr", "MRR", &Cutoffs::mrr_at_k,
     [](const Hits& hits, auto k, auto) { return reciprocal_rank(hits, k); }},
    {"map", "MAP", &Cutoffs::map_at_k,
     [](const Hits& hits, auto k, auto all) {
       return summed_precision(hits, k) / static_cast<double>(std::min(k, all));
     }},
}};
/// The order of the table: each precision is followed by its recall, MRR by NDCG.
const std::vector<std::vector<std::size_t>> kTable{{0}, {1, 2}, {4}, {3}, {5}};

/// Calls visit(figure, k) for each metric, in order.
template <class Visit>
void for_figures(const Cutoffs& cutoffs, Visit visit) {
  for (const RetrievalFigure& figure : kRetrievalFigures)
    for (const std::int64_t k : cutoffs.*figure.at_k) visit(figure, k);
}

/// The largest rank.
std::int64_t largest(const Cutoffs& cutoffs) {
  std::int64_t most = 1;
  for_figures(cutoffs, [&](const RetrievalFigure&, std::int64_t k) { most = std::max(most, k); });
  return most;
}

Tensor rows_of(const Tensor& table, std::span<const std::size_t> rows) {
  Tensor out = empty({std::ssize(rows), table.size(1)}, DType::f32, Device{});
  for (std::int64_t i = 0; i < std::ssize(rows); ++i)
    out[i].copy_(table[static_cast<std::int64_t>(rows[static_cast<std::size_t>(i)])]);
  return out;
}

}  // namespace

InformationRetrievalEvaluator::InformationRetrievalEvaluator(const RetrievalData& data,
                                                             Options options)
    : options_(std::move(options)) {
  std::ranges::sort(options_.similarities);
  corpus_rows_.resize(data.corpus.ids.size());
  std::iota(corpus_rows_.begin(), corpus_rows_.end(), std::size_t{0});
  std::ranges::sort(corpus_rows_, {}, [&](std::size_t row) { return data.corpus.ids[row]; });
  std::map<std::string_view, std::int64_t> position;
  for (const std::size_t row : corpus_rows_) {
    position.emplace(data.corpus.ids[row], std::ssize(corpus_));
    corpus_.push_back(data.corpus.texts[row]);
  }
  for (std::size_t row = 0; row < data.queries.ids.size(); ++row) {
    const auto found = data.relevant.find(data.queries.ids[row]);
    if (found == data.relevant.end() || found->second.empty()) continue;
    query_rows_.push_back(row);
    queries_.push_back(data.queries.texts[row]);
    Relevant& relevant = relevant_.emplace_back();
    relevant.count = std::ssize(found->second);
    for (const std::string& id : found->second)
      if (const auto at = position.find(id); at != position.end()) relevant.rows.insert(at->second);
  }
  if (queries_.empty() || corpus_.empty())
    fail_input(data.name, ": expected documents and queries with a relevant one, found ",
               corpus_.size(), " documents and ", queries_.size(), " such queries");
  if (options_.corpus_chunk_size == 0)
    fail_input("corpus chunk size: expected at least 1, found 0");
}

Report InformationRetrievalEvaluator::report(const models::SentenceEncoder& model,
                                             const EvaluationPoint& at) const {
  const Tensor queries = encode_as(TextRole::query, model, queries_, {}, at.group);
  const auto documents = [&](std::size_t begin, std::size_t end) {
    return encode_as(TextRole::document, model, std::span(corpus_).subspan(begin, end - begin), {},
                     at.group);
  };
  return score(queries.to(model.device()), documents, own_similarity(model), at);
}

Report InformationRetrievalEvaluator::report_of(const Tensor& queries, const Tensor& corpus,
                                                Similarity own, const EvaluationPoint& at) const {
  const auto documents = [&](std::size_t begin, std::size_t end) {
    return rows_of(corpus, std::span(corpus_rows_).subspan(begin, end - begin));
  };
  return score(rows_of(queries, query_rows_), documents, own, at);
}

Report InformationRetrievalEvaluator::score(const Tensor& queries, const Documents& documents,
                                            Similarity own, const EvaluationPoint& at) const {
  const std::vector<Similarity> similarities = similarities_or(options_.similarities, own);
  std::vector<TopKSearch> searches;
  for (const Similarity similarity : similarities)
    searches.emplace_back(queries, largest(options_.cutoffs), similarity, at.group);
  for (std::size_t begin = 0; begin < corpus_.size(); begin += options_.corpus_chunk_size) {
    const std::size_t end = std::min(begin + options_.corpus_chunk_size, corpus_.size());
    const Tensor chunk = documents(begin, end);
    for (TopKSearch& search : searches) search.add(chunk);
  }
  Report report(options_.name);
  double best = -1;
  const std::string ndcg = str("ndcg@", *std::ranges::max_element(options_.cutoffs.ndcg_at_k));
  std::string primary;
  for (std::size_t s = 0; s < similarities.size(); ++s) {
    const std::string name(kSimilarities(similarities[s]));
    const Metrics means = means_of(searches[s].finish());
    for (const auto& [key, mean] : means) report.add_metric(name + '_' + key, mean);
    for (const std::vector<std::size_t>& group : kTable)
      for (const std::int64_t k : options_.cutoffs.*kRetrievalFigures[group[0]].at_k)
        for (const std::size_t i : group)
          report.add_column(str(name, '-', kRetrievalFigures[i].title, '@', k),
                            *find_metric(means, kRetrievalFigures[i].metric(k)));
    if (*find_metric(means, ndcg) > best) primary = name + '_' + ndcg;
    best = std::max(best, *find_metric(means, ndcg));
  }
  report.set_primary(primary);
  report.write("Information-Retrieval_evaluation", at, "results", "\n");
  return report;
}

Metrics InformationRetrievalEvaluator::means_of(const std::vector<std::vector<Hit>>& found) const {
  Metrics means;
  for_figures(options_.cutoffs, [&](const RetrievalFigure& figure, std::int64_t k) {
    means.emplace_back(figure.metric(k), 0);
  });
  for (std::size_t query = 0; query < found.size(); ++query) {
    const Relevant& relevant = relevant_[query];
    Hits hits;
    for (const Hit& hit : found[query]) hits.push_back(relevant.rows.contains(hit.row));
    std::size_t i = 0;
    for_figures(options_.cutoffs, [&](const RetrievalFigure& figure, std::int64_t k) {
      means[i++].second += figure.value(hits, k, relevant.count);
    });
  }
  for (auto& [key, sum] : means) sum /= static_cast<double>(queries_.size());
  return means;
}

}  // namespace ringlet::train
