#include "ringlet/train/data/token_cache.h"

namespace ringlet::train {

TokenCache::TokenCache(const TextDataset& dataset, models::Tokenizer tokenizer,
                       const Prompts& prompts)
    : dataset_(dataset), tokenizer_(std::move(tokenizer)), places_(dataset.size()) {
  for (const std::string& column : dataset.columns()) {
    auto found = prompts.find(column);
    if (found == prompts.end()) found = prompts.find("");
    prompts_.push_back(found == prompts.end() ? "" : found->second);
  }
}

TokenCache::Row TokenCache::row(std::size_t index) {
  std::size_t& place = places_.at(index);
  if (place == 0) place = tokenize(index) + 1;
  Row row;
  row.count = dataset_.columns().size();
  std::size_t at = place - 1 + row.count;
  for (std::size_t c = 0; c < row.count; ++c) {
    const auto length = static_cast<std::size_t>(records_[place - 1 + c]);
    row.columns[c] = std::span(records_).subspan(at, length);
    row.tokens += static_cast<std::int64_t>(length);
    at += length;
  }
  return row;
}

/// Appends the row's record and returns where it begins.
std::size_t TokenCache::tokenize(std::size_t index) {
  const std::size_t record = records_.size();
  const RowTexts texts = dataset_.texts(index);
  records_.resize(record + texts.size());
  for (std::size_t c = 0; c < texts.size(); ++c) {
    const std::size_t before = records_.size();
    tokenizer_.append(prompts_[c].empty() ? texts[c] : prompts_[c] + std::string(texts[c]),
                      records_);
    records_[record + c] = static_cast<std::int32_t>(records_.size() - before);
  }
  return record;
}

}  // namespace ringlet::train
