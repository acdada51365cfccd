// Buckets: batches of varying lengths padded to a few shapes, so that work captured for one batch
// fits the next.
#pragma once

#include <cstdint>

#include "ringlet/models/batch.h"

namespace ringlet::models {

/// Buckets are multiples of kBucketStep up to kFineBuckets tokens, and of twice that above.
inline constexpr std::int64_t kBucketStep = 64;
inline constexpr std::int64_t kFineBuckets = 1536;
inline constexpr std::int64_t kLongestBucket = 3072;
inline constexpr std::int64_t kShortestClass = 32;
inline constexpr std::int64_t kLongestClass = 512;

/// The number of tokens to pad a batch of `tokens` to; 0 if there is no bucket. There is none for
/// an empty batch, or beyond kLongestBucket, where computing takes longer than launching.
inline constexpr std::int64_t token_bucket(std::int64_t tokens) {
  if (tokens <= 0 || tokens > kLongestBucket) return 0;
  const std::int64_t step = tokens <= kFineBuckets ? kBucketStep : 2 * kBucketStep;
  return (tokens + step - 1) / step * step;
}

/// The power of 2, at least kShortestClass, that holds the longest sentence; 0 beyond
/// kLongestClass.
inline constexpr std::int64_t length_class(std::int64_t longest) {
  if (longest > kLongestClass) return 0;
  std::int64_t length = kShortestClass;
  while (length < longest) length *= 2;
  return length;
}

/// The number of tokens to pad a batch to; 0 if it has no bucket.
inline std::int64_t bucket_of(const PackedBatch& batch) {
  return length_class(batch.max_length) > 0 ? token_bucket(batch.tokens()) : 0;
}

/// Pads the batch, which lies on the CPU and has at least one sentence, to `tokens` tokens. The
/// dummies after the last sentence belong to it as padding does. No token attends to them and no
/// embedding includes them, so their gradients are zeros. `lengths` is defined, `max_length` counts
/// real tokens.
PackedBatch filled_up(const PackedBatch& batch, std::int64_t tokens);

}  // namespace ringlet::models
