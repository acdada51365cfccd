// Token ids of a data set's rows: tokenised at the first use, then kept.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/train/data/dataset.h"

namespace ringlet::train {

/// Four bytes a token. For one thread at a time.
class TokenCache {
 public:
  /// The data set must outlive the cache.
  TokenCache(const TextDataset& dataset, models::Tokenizer tokenizer, const Prompts& prompts = {});

  struct Row {
    std::array<std::span<const std::int32_t>, kMaxColumns> columns;
    std::size_t count = 0;
    std::int64_t tokens = 0;
    std::span<const std::span<const std::int32_t>> spans() const { return {columns.data(), count}; }
  };
  /// Valid until the next call.
  Row row(std::size_t index);

  const TextDataset& dataset() const { return dataset_; }

 private:
  std::size_t tokenize(std::size_t index);

  const TextDataset& dataset_;
  models::Tokenizer tokenizer_;
  std::vector<std::string> prompts_;   // of each column
  std::vector<std::size_t> places_;    // per row: where its record begins, + 1; 0 without one
  std::vector<std::int32_t> records_;  // each is the length of each column, then their ids
};

}  // namespace ringlet::train
