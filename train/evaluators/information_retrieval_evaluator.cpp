#include "ringlet/train/evaluators/information_retrieval_evaluator.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ringlet/comm/rows.h"
#include "ringlet/train/evaluators/ranking.h"

namespace ringlet::train {
namespace {

using Ranks = std::vector<std::int64_t>;

/// Calls visit(rank from 1) for each hit up to rank k.
template <class Visit>
void for_hits(const std::vector<bool>& hits, std::int64_t k, Visit visit) {
  for (std::int64_t rank = 1; rank <= std::min(k, std::ssize(hits)); ++rank)
    if (hits[static_cast<std::size_t>(rank - 1)]) visit(rank);
}

double count_hits(const std::vector<bool>& hits, std::int64_t k) {
  double found = 0;
  for_hits(hits, k, [&](std::int64_t) { ++found; });
  return found;
}

double discounted_gain(const std::vector<bool>& hits, std::int64_t k) {
  double sum = 0;
  for_hits(hits, k, [&](std::int64_t rank) { sum += gain(rank); });
  return sum;
}

double summed_precision(const std::vector<bool>& hits, std::int64_t k) {
  double sum = 0, found = 0;
  for_hits(hits, k, [&](std::int64_t rank) { sum += ++found / static_cast<double>(rank); });
  return sum;
}

void add_keys(std::vector<std::string>& keys, const char* name, const Ranks& ranks) {
  for (const std::int64_t k : ranks) keys.push_back(str(name, '@', k));
}

/// The largest rank.
std::int64_t largest(const RetrievalCutoffs& cutoffs) {
  std::int64_t most = 1;
  for (const Ranks* ranks : {&cutoffs.mrr_at_k, &cutoffs.ndcg_at_k, &cutoffs.accuracy_at_k,
                             &cutoffs.precision_recall_at_k, &cutoffs.map_at_k})
    for (const std::int64_t k : *ranks) most = std::max(most, k);
  return most;
}

/// "accuracy@1", …, "precision@1", …, "recall@1", …, "ndcg@10", "mrr@10", "map@100".
std::vector<std::string> retrieval_keys(const RetrievalCutoffs& cutoffs) {
  std::vector<std::string> keys;
  add_keys(keys, "accuracy", cutoffs.accuracy_at_k);
  add_keys(keys, "precision", cutoffs.precision_recall_at_k);
  add_keys(keys, "recall", cutoffs.precision_recall_at_k);
  add_keys(keys, "ndcg", cutoffs.ndcg_at_k);
  add_keys(keys, "mrr", cutoffs.mrr_at_k);
  add_keys(keys, "map", cutoffs.map_at_k);
  return keys;
}

/// The keys in the order of the table: each precision is followed by its recall, MRR by NDCG.
std::vector<std::string> retrieval_columns(const RetrievalCutoffs& cutoffs) {
  std::vector<std::string> keys;
  add_keys(keys, "accuracy", cutoffs.accuracy_at_k);
  for (const std::int64_t k : cutoffs.precision_recall_at_k) {
    add_keys(keys, "precision", {k});
    add_keys(keys, "recall", {k});
  }
  add_keys(keys, "mrr", cutoffs.mrr_at_k);
  add_keys(keys, "ndcg", cutoffs.ndcg_at_k);
  add_keys(keys, "map", cutoffs.map_at_k);
  return keys;
}

/// The figures in the order of retrieval_keys. `hits`: whether the document of each rank is
/// relevant; `relevant`: how many there are, at least 1.
std::vector<double> retrieval_figures(const std::vector<bool>& hits, std::int64_t relevant,
                                      const RetrievalCutoffs& cutoffs) {
  RINGLET_CHECK(relevant > 0, "[retrieval] a query without relevant documents");
  std::vector<double> values;
  const auto add = [&](const Ranks& ranks, auto figure) {
    for (const std::int64_t k : ranks) values.push_back(figure(k));
  };
  const auto all = static_cast<double>(relevant);
  add(cutoffs.accuracy_at_k, [&](auto k) { return count_hits(hits, k) > 0 ? 1.0 : 0.0; });
  add(cutoffs.precision_recall_at_k,
      [&](auto k) { return count_hits(hits, k) / static_cast<double>(k); });
  add(cutoffs.precision_recall_at_k, [&](auto k) { return count_hits(hits, k) / all; });
  add(cutoffs.ndcg_at_k,
      [&](auto k) { return discounted_gain(hits, k) / ideal_gain(std::min(k, relevant)); });
  add(cutoffs.mrr_at_k, [&](auto k) { return reciprocal_rank(hits, k); });
  add(cutoffs.map_at_k, [&](auto k) {
    return summed_precision(hits, k) / static_cast<double>(std::min(k, relevant));
  });
  return values;
}

/// "NDCG@10" of "ndcg@10".
std::string column_title(const std::string& key) {
  static const std::map<std::string, std::string> kTitles{
      {"accuracy", "Accuracy"}, {"precision", "Precision"}, {"recall", "Recall"},
      {"mrr", "MRR"},           {"ndcg", "NDCG"},           {"map", "MAP"}};
  const std::size_t at = key.find('@');
  return kTitles.at(key.substr(0, at)) + key.substr(at);
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
  const Tensor queries = encode_as(TextRole::query, model, queries_, options_.encode, at.group);
  const auto documents = [&](std::size_t begin, std::size_t end) {
    return encode_as(TextRole::document, model, std::span(corpus_).subspan(begin, end - begin),
                     options_.encode, at.group);
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
  const Share mine = share_of(at.group);
  std::vector<TopKSearch> searches;
  for (const Similarity similarity : similarities)
    searches.emplace_back(queries.slice(mine.begin, mine.end), largest(options_.cutoffs),
                          similarity);
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
    const Metrics means = means_of(searches[s].finish(), mine, at.group);
    for (const auto& [key, mean] : means) report.add_metric(name + '_' + key, mean);
    for (const std::string& key : retrieval_columns(options_.cutoffs))
      report.add_column(name + '-' + column_title(key), *find_metric(means, key));
    if (*find_metric(means, ndcg) > best) primary = name + '_' + ndcg;
    best = std::max(best, *find_metric(means, ndcg));
  }
  report.set_primary(primary);
  report.write("Information-Retrieval_evaluation", at, "results", "\n");
  return report;
}

auto InformationRetrievalEvaluator::share_of(const comm::Group& group) const -> Share {
  const auto count = std::ssize(queries_);
  return {count * group.rank() / group.size(), count * (group.rank() + 1) / group.size()};
}

Metrics InformationRetrievalEvaluator::means_of(const std::vector<std::vector<Hit>>& found,
                                                Share mine, const comm::Group& group) const {
  std::vector<double> figures;  // (my queries, keys)
  for (std::int64_t query = mine.begin; query < mine.end; ++query) {
    const Relevant& relevant = relevant_[static_cast<std::size_t>(query)];
    std::vector<bool> hits;
    for (const Hit& hit : found[static_cast<std::size_t>(query - mine.begin)])
      hits.push_back(relevant.rows.contains(hit.row));
    const auto of_query = retrieval_figures(hits, relevant.count, options_.cutoffs);
    figures.insert(figures.end(), of_query.begin(), of_query.end());
  }
  Metrics means;
  for (const std::string& key : retrieval_keys(options_.cutoffs)) means.emplace_back(key, 0);
  for (const std::vector<double>& theirs : comm::all_gather_values(group, figures))
    for (std::size_t i = 0; i < theirs.size(); ++i) means[i % means.size()].second += theirs[i];
  for (auto& [key, sum] : means) sum /= static_cast<double>(queries_.size());
  return means;
}

}  // namespace ringlet::train
