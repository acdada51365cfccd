// Buckets: batches of ever other lengths filled up to a few shapes, so that work captured for one
// batch fits the next.
#pragma once

#include <cstdint>

#include "ringlet/models/batch.h"

namespace ringlet::models {

/// Buckets are multiples of kBucketStep up to kFineBuckets tokens, then of twice that.
inline constexpr std::int64_t kBucketStep = 64;
inline constexpr std::int64_t kFineBuckets = 1536;
inline constexpr std::int64_t kLongestBucket = 3072;
inline constexpr std::int64_t kShortestClass = 32;
inline constexpr std::int64_t kLongestClass = 512;

/// The tokens that a batch of so many is filled up to; 0 where there is no bucket: beyond
/// kLongestBucket, where computing takes longer than launching, and for an empty batch.
inline constexpr std::int64_t token_bucket(std::int64_t tokens) {
  if (tokens <= 0 || tokens > kLongestBucket) return 0;
  const std::int64_t step = tokens <= kFineBuckets ? kBucketStep : 2 * kBucketStep;
  return (tokens + step - 1) / step * step;
}

/// The power of 2 from kShortestClass on that a longest sentence fits in; 0 beyond kLongestClass.
inline constexpr std::int64_t length_class(std::int64_t longest) {
  if (longest > kLongestClass) return 0;
  std::int64_t length = kShortestClass;
  while (length < longest) length *= 2;
  return length;
}

/// The tokens that a batch is filled up to; 0 where it has no bucket.
inline std::int64_t bucket_of(const PackedBatch& batch) {
  return length_class(batch.max_length) > 0 ? token_bucket(batch.tokens()) : 0;
}

/// The batch, which lies on the CPU and has a sentence at least, with `tokens` tokens: dummies
/// behind the last sentence belong to it as padding does. Nobody attends to them, no embedding
/// counts them, so their gradients are zeros. `lengths` is defined, `max_length` that of real
/// sentences.
PackedBatch filled_up(const PackedBatch& batch, std::int64_t tokens);

}  // namespace ringlet::models
