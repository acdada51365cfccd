// Token ids of a data set's rows: tokenised at the first use, then kept.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/train/data/dataset.h"

namespace ringlet::train {

/// For one thread at a time. Two bytes a token if the vocabulary and the longest text allow it.
class TokenCache {
 public:
  /// The data set must outlive the cache. Without `keep`, rows are tokenised on every use.
  TokenCache(const TextDataset& dataset, models::Tokenizer tokenizer, bool keep = true);

  struct Row {
    std::array<std::span<const std::int32_t>, kMaxColumns> columns;
    std::size_t count = 0;
    std::int64_t tokens = 0;
    std::span<const std::span<const std::int32_t>> spans() const { return {columns.data(), count}; }
  };
  /// Valid until the next call.
  Row row(std::size_t index);

  const TextDataset& dataset() const { return dataset_; }
  std::size_t nbytes() const;

 private:
  void tokenize(std::size_t index);
  void remember(std::size_t index);
  bool recall(std::size_t index);

  const TextDataset& dataset_;
  models::Tokenizer tokenizer_;
  bool keep_;
  bool narrow_;
  std::vector<std::uint64_t> places_;  // per row: where its record begins, + 1; 0 without one
  // A record is the length and the ids of each column.
  std::vector<std::uint16_t> narrow_records_;
  std::vector<std::int32_t> wide_records_;
  std::vector<std::int32_t> ids_;  // of the current row
  std::array<std::size_t, kMaxColumns + 1> ends_{};
};

}  // namespace ringlet::train
