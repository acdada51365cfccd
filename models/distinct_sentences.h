// The distinct sentences among many tokenized ones, longest first: each is embedded once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "ringlet/models/tokenizer/tokenizer.h"

namespace ringlet::models {

class DistinctSentences {
 public:
  /// `encoded` must outlive this object.
  explicit DistinctSentences(const PackedEncoding& encoded)
      : encoded_(encoded), order_(encoded.cu_seqlens.size() - 1) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return before(ids_of(a), ids_of(b)); });
    for (std::size_t i = 0; i < order_.size(); ++i)
      if (i == 0 || before(ids_of(order_[i - 1]), ids_of(order_[i]))) begins_.push_back(i);
    begins_.push_back(order_.size());
  }

  std::size_t size() const { return begins_.size() - 1; }
  /// Token ids of the d-th distinct sentence.
  std::span<const std::int32_t> ids(std::size_t d) const { return ids_of(order_[begins_[d]]); }
  /// The places in `encoded` of all sentences equal to the d-th, ascending.
  std::span<const std::size_t> places(std::size_t d) const {
    return std::span(order_).subspan(begins_[d], begins_[d + 1] - begins_[d]);
  }

 private:
  using Ids = std::span<const std::int32_t>;
  static bool before(Ids a, Ids b) {
    if (a.size() != b.size()) return a.size() > b.size();
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
  Ids ids_of(std::size_t i) const {
    const auto begin = static_cast<std::size_t>(encoded_.cu_seqlens[i]);
    return Ids(encoded_.ids)
        .subspan(begin, static_cast<std::size_t>(encoded_.cu_seqlens[i + 1]) - begin);
  }

  const PackedEncoding& encoded_;
  std::vector<std::size_t> order_;   // (texts): places, equal sentences together
  std::vector<std::size_t> begins_;  // (distinct + 1): offsets in `order_`
};

}  // namespace ringlet::models
