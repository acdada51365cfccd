#include "ringlet/train/evaluators/search/similarity.h"

#include <algorithm>
#include <cmath>

#include "ringlet/comm/rows.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/normalize.h"
#include "ringlet/core/threads/parallel.h"

namespace ringlet::train {
namespace {

constexpr std::int64_t kBlockRows = 1024, kBlockQueries = 1024;

void keep(std::vector<Hit>& heap, std::size_t k, const Hit& hit) {
  if (heap.size() == k) {
    if (!is_better(hit, heap.front())) return;
    std::ranges::pop_heap(heap, is_better);
    heap.pop_back();
  } else if (std::isnan(hit.score)) {
    return;
  }
  heap.push_back(hit);
  std::ranges::push_heap(heap, is_better);
}

}  // namespace

double similarity_of(Similarity similarity, const float* a, const float* b, std::int64_t n) {
  double dot = 0, aa = 0, bb = 0, squared = 0, absolute = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = a[i], y = b[i];
    dot += x * y;
    aa += x * x;
    bb += y * y;
    squared += (x - y) * (x - y);
    absolute += std::abs(x - y);
  }
  switch (similarity) {
    case Similarity::cosine: {
      constexpr double kLeast = 1e-24;  // norms are at least 1e-12, as in torch's normalize
      const double norms = std::sqrt(std::max(aa, kLeast) * std::max(bb, kLeast));
      return std::clamp(dot / norms, -1.0, 1.0);
    }
    case Similarity::dot:
      return dot;
    case Similarity::euclidean:
      return -std::sqrt(squared);
    case Similarity::manhattan:
      break;
  }
  return -absolute;
}

std::vector<double> paired_similarities(Similarity similarity, const Tensor& a, const Tensor& b) {
  RINGLET_CHECK(a.dim() == 2 && a.shape() == b.shape(), "[similarity] embeddings of shapes ",
                a.shape(), " and ", b.shape());
  const Tensor first = a.to(Device()), second = b.to(Device());
  std::vector<double> values;
  for (std::int64_t i = 0; i < a.size(0); ++i)
    values.push_back(
        similarity_of(similarity, first[i].data<float>(), second[i].data<float>(), a.size(1)));
  return values;
}

Similarity own_similarity(const models::SentenceEncoder& model) {
  return kSimilarities.parse(model.sentence_config().similarity_fn_name);
}

std::vector<Similarity> similarities_or(const std::vector<Similarity>& chosen, Similarity own) {
  return chosen.empty() ? std::vector{own} : chosen;
}

bool is_better(const Hit& a, const Hit& b) {
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

TopKSearch::TopKSearch(const Tensor& queries, std::int64_t k, Similarity similarity,
                       comm::Group group)
    : similarity_(similarity), k_(static_cast<std::size_t>(k)), group_(std::move(group)) {
  RINGLET_CHECK(queries.dim() == 2 && k >= 1, "[top_k] queries of shape ", queries.shape(),
                " and k ", k);
  const std::int64_t rank = group_.rank(), ranks = group_.size(), count = queries.size(0);
  queries_ = queries.slice(count * rank / ranks, count * (rank + 1) / ranks);
  if (similarity == Similarity::cosine) queries_ = normalize(queries_).y;
  if (!is_product(similarity)) queries_ = queries_.to(Device{});
  block_ = zeros({kBlockRows, queries.size(1)}, DType::f32, queries_.device());
  heaps_.resize(static_cast<std::size_t>(queries_.size(0)));
}

void TopKSearch::add(const Tensor& rows) {
  RINGLET_CHECK(rows.dim() == 2 && rows.size(1) == block_.size(1), "[top_k] rows of shape ",
                rows.shape(), " for queries of shape ", queries_.shape());
  for (std::int64_t begin = 0; begin < rows.size(0);) {
    const std::int64_t count = std::min(kBlockRows - filled_, rows.size(0) - begin);
    block_.slice(filled_, filled_ + count).copy_(rows.slice(begin, begin + count));
    begin += count;
    filled_ += count;
    if (filled_ == kBlockRows) search_block();
  }
}

std::vector<std::vector<Hit>> TopKSearch::finish() {
  if (filled_ > 0) search_block();
  for (std::vector<Hit>& heap : heaps_) std::ranges::sort_heap(heap, is_better);
  if (group_.size() == 1) return std::move(heaps_);
  std::vector<std::size_t> counts;  // of each query
  std::vector<Hit> hits;
  for (const std::vector<Hit>& of_query : heaps_) {
    counts.push_back(of_query.size());
    hits.insert(hits.end(), of_query.begin(), of_query.end());
  }
  const auto all_counts = comm::all_gather_values(group_, counts);
  const auto all_hits = comm::all_gather_values(group_, hits);
  std::vector<std::vector<Hit>> all;
  for (std::size_t rank = 0; rank < all_hits.size(); ++rank) {
    auto next = all_hits[rank].begin();
    for (const std::size_t count : all_counts[rank]) {
      all.emplace_back(next, next + static_cast<std::ptrdiff_t>(count));
      next += static_cast<std::ptrdiff_t>(count);
    }
  }
  return all;
}

void TopKSearch::search_block() {
  if (similarity_ == Similarity::cosine) block_ = normalize(block_).y;
  for (std::int64_t begin = 0; begin < queries_.size(0); begin += kBlockQueries)
    keep_best(scores_of(begin, std::min(begin + kBlockQueries, queries_.size(0))), begin);
  searched_ += filled_;
  filled_ = 0;
}

/// (queries, kBlockRows) on a CPU.
Tensor TopKSearch::scores_of(std::int64_t begin, std::int64_t end) const {
  const Tensor queries = queries_.slice(begin, end);
  if (is_product(similarity_)) return matmul(queries, block_, {.trans_b = true}).to(Device{});
  Tensor scores = empty({end - begin, kBlockRows}, DType::f32, Device{});
  const std::int64_t width = block_.size(1);
  float* const out = scores.mutable_data<float>();
  parallel_for(Device{}, end - begin, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t q = first; q < last; ++q)
      for (std::int64_t row = 0; row < filled_; ++row)
        out[q * kBlockRows + row] =
            static_cast<float>(similarity_of(similarity_, queries.data<float>() + q * width,
                                             block_.data<float>() + row * width, width));
  });
  return scores;
}

void TopKSearch::keep_best(const Tensor& scores, std::int64_t first_query) {
  parallel_for(Device{}, scores.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t q = begin; q < end; ++q) {
      std::vector<Hit>& heap = heaps_[static_cast<std::size_t>(first_query + q)];
      const float* of_query = scores.data<float>() + q * kBlockRows;
      for (std::int64_t row = 0; row < filled_; ++row)
        keep(heap, k_, {searched_ + row, of_query[row]});
    }
  });
}

}  // namespace ringlet::train
