#include "ringlet/train/data/token_cache.h"

#include <limits>

namespace ringlet::train {
namespace {

constexpr std::int64_t kNarrowLimit = std::numeric_limits<std::uint16_t>::max();

}  // namespace

TokenCache::TokenCache(const TextDataset& dataset, models::Tokenizer tokenizer, bool keep)
    : dataset_(dataset),
      tokenizer_(std::move(tokenizer)),
      keep_(keep),
      narrow_(tokenizer_.vocab_size() <= kNarrowLimit && tokenizer_.max_length() > 0 &&
              tokenizer_.max_length() <= kNarrowLimit),
      places_(keep ? dataset.size() : 0) {}

TokenCache::Row TokenCache::row(std::size_t index) {
  if (!recall(index)) {
    tokenize(index);
    if (keep_) remember(index);
  }
  Row row;
  row.count = dataset_.columns().size();
  row.tokens = static_cast<std::int64_t>(ids_.size());
  for (std::size_t c = 0; c < row.count; ++c)
    row.columns[c] = std::span(ids_).subspan(ends_[c], ends_[c + 1] - ends_[c]);
  return row;
}

std::size_t TokenCache::nbytes() const {
  return places_.size() * sizeof(std::uint64_t) + narrow_records_.size() * sizeof(std::uint16_t) +
         wide_records_.size() * sizeof(std::int32_t);
}

void TokenCache::tokenize(std::size_t index) {
  ids_.clear();
  std::size_t column = 0;
  for (const std::string_view text : dataset_.texts(index)) {
    tokenizer_.append(text, ids_);
    ends_[++column] = ids_.size();
  }
}

void TokenCache::remember(std::size_t index) {
  const auto write = [&](auto& records) {
    using Id = typename std::remove_reference_t<decltype(records)>::value_type;
    places_[index] = records.size() + 1;
    for (std::size_t c = 0; c < dataset_.columns().size(); ++c) {
      records.push_back(static_cast<Id>(ends_[c + 1] - ends_[c]));
      for (std::size_t i = ends_[c]; i < ends_[c + 1]; ++i)
        records.push_back(static_cast<Id>(ids_[i]));
    }
  };
  narrow_ ? write(narrow_records_) : write(wide_records_);
}

bool TokenCache::recall(std::size_t index) {
  if (!keep_ || places_.at(index) == 0) return false;
  const auto read = [&](const auto& records) {
    std::size_t at = places_[index] - 1;
    ids_.clear();
    for (std::size_t c = 0; c < dataset_.columns().size(); ++c) {
      const auto length = static_cast<std::size_t>(records[at++]);
      for (std::size_t i = 0; i < length; ++i) ids_.push_back(records[at++]);
      ends_[c + 1] = ids_.size();
    }
  };
  narrow_ ? read(narrow_records_) : read(wide_records_);
  return true;
}

}  // namespace ringlet::train
