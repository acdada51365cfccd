// Packed batches: the tokens of all sentences contiguously, without padding from the embedding to
// the loss. Both sentences of a pair are in one batch, so that one forward covers them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "ringlet/autograd/variable.h"

namespace ringlet::nn {
class BlockRows;
}

namespace ringlet::models {

struct BatchBlock;

/// Rows of a data set in the encoder's format. Sentences are ordered by column, then by row: for
/// pairs, embeddings [0, rows) are the first sentences and [rows, 2 rows) the second ones.
struct PackedBatch {
  Tensor token_ids;    // (T) i32
  Tensor token_index;  // (T) i32, place of each token in its sentence
  /// (T) i32, position ids of models that count from kCountedPadding + 1. Tokens kCountedPadding
  /// are not counted and have kCountedPadding itself.
  Tensor counted_position;
  Tensor positions;     // (T, 2) i32, sentence id and token_index: the counters of dropout
  Tensor cu_seqlens;    // (S + 1) i32, where sentences start; S = columns * rows
  Tensor lengths;       // (S) i32, real tokens of each sentence; undefined: no padding
  Tensor sentence_ids;  // (S) i32, row in the global batch * columns + column
  Tensor labels;        // (rows) i64 classes, f32 scores, or (rows, D) f32; or undefined

  std::int64_t rows = 0;
  std::int64_t columns = 1;
  std::int64_t global_rows = 0;    // rows of the global batch over all ranks; losses divide by it
  std::int64_t ranks = 0;          // that share the global batch; 0: unknown
  bool of_group = false;           // the ranks are a group's: a strategy is to sum the gradients
  std::int64_t max_length = 0;     // longest sentence
  std::int64_t real_tokens = 0;    // T without padding
  std::int64_t padded_tokens = 0;  // T if each column were padded to its longest sentence
  std::int64_t forward_rows = 0;   // rows of one forward, as Loader's mini_batch_size; 0: all
  std::size_t dataset = 0;         // which data set the rows are from
  /// For losses that compare the rows of a global batch: the batches of this rank's logical ranks,
  /// and the place of this one. Null if there are as many logical ranks as ranks.
  std::shared_ptr<BatchBlock> block = {};
  std::size_t place_in_block = 0;
  std::size_t forward_in_block = 0;  // its number in the step: FSDP may add one of a place
  /// Rows of each device, in order, if a loader divided them among devices; else empty.
  std::vector<std::int64_t> device_rows;

  std::int64_t tokens() const { return token_ids.defined() ? token_ids.size(0) : 0; }
  std::int64_t sentences() const { return rows * columns; }
  /// A copy from the host to a GPU is one transfer of all tensors into one storage.
  PackedBatch to(Device device) const;
  /// Overwrites tensors that to() made on a GPU with the values of `batch`, in one copy. `batch`
  /// lies on the CPU and has the same shapes.
  void fill_(const PackedBatch& batch);
  /// Selected rows, ascending, on the CPU; they keep their ids and global_rows.
  PackedBatch select(std::span<const std::size_t> rows) const;
  /// The same of rows [begin, end).
  PackedBatch rows_between(std::int64_t begin, std::int64_t end) const;
  /// `n` parts of near-equal numbers of rows, in order.
  std::vector<PackedBatch> parts(std::int64_t n) const;
  /// One column as a batch that shares storage; labels stay.
  PackedBatch column(std::int64_t c) const;
};

/// A step's batches of a rank's logical ranks, and the rows that their losses gather.
struct BatchBlock {
  std::vector<PackedBatch> batches = {};  // without this
  std::shared_ptr<nn::BlockRows> rows = {};
  std::set<std::size_t> forwards = {};  // that have used these rows
};

/// Builds a batch on cpu:0, sentence by sentence.
class BatchBuilder {
 public:
  explicit BatchBuilder(std::int64_t columns = 1) : ids_(static_cast<std::size_t>(columns)) {}

  /// Sentences of one row, one span of token ids per column. `global_row` is the row's place in
  /// the global batch (the ids of its dropout masks).
  void add_row(std::span<const std::span<const std::int32_t>> columns, std::int64_t global_row);
  void add_label(std::int64_t label) { labels_.push_back(label); }
  void add_score(float score) { scores_.push_back(score); }
  /// The label of a row; all have the same size.
  void add_embedding(std::span<const float> values);

  /// `global_rows` 0 means the rows added here. With `padded`, every sentence is padded with
  /// `pad_id` to the longest of its column and `lengths` has the number of real tokens.
  PackedBatch build(std::int64_t global_rows = 0, bool padded = false,
                    std::int32_t pad_id = 0) const;

 private:
  struct Sentence {
    std::int64_t global_row;
    std::size_t begin, end;  // in the column's ids
  };
  struct Column {
    std::vector<std::int32_t> tokens;
    std::vector<Sentence> sentences;
  };
  std::vector<Column> ids_;
  std::vector<std::int64_t> labels_;
  std::vector<float> scores_;
  std::vector<float> embeddings_;  // (rows, D)
};

/// Runs a module's batches in its place, for instance split over copies on several devices.
class BatchRunner {
 public:
  virtual ~BatchRunner() = default;
  virtual Variable run(const PackedBatch& batch) = 0;
};

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
