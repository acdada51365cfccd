// A sentence encoder: tokenizer, transformer, pooling and, where asked for, normalisation; what a
// Sentence Transformers folder holds.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ringlet/core/ops/pooling.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/sentence_config.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/models/transformer.h"

namespace ringlet::models {

using Pooling = PoolingMode;  // mean, cls or max

struct EncodeOptions {
  /// Tokens of one forward; sentences, each distinct one once, are sorted by length and cut into
  /// batches of about this many.
  std::int64_t batch_tokens = 4096;
  /// Where set, the seconds that the tokenizer took are added here.
  double* tokenizing_s = nullptr;
  /// A name among the folder's prompts; unset: the default one.
  std::optional<std::string> prompt_name = {};
};

/// A handle: copies are the same model.
class SentenceEncoder {
 public:
  /// A model of random weights (from the thread's generator).
  SentenceEncoder(const EncoderConfig& config, Tokenizer tokenizer, Pooling pooling = Pooling::mean,
                  bool normalize = false);
  /// From its parts; sentences may be as long as both tokenizer and transformer allow.
  SentenceEncoder(std::shared_ptr<Transformer> transformer, Tokenizer tokenizer,
                  Pooling pooling = Pooling::mean, bool normalize = false);
  /// Reads a Sentence Transformers folder, or a folder of a bare BERT or MPNet checkpoint (then
  /// with mean pooling). See models/folder.h for what is read; weights stay in the file until
  /// they are used.
  static SentenceEncoder from_pretrained(const std::filesystem::path& folder,
                                         Device device = default_device());

  /// Embeddings of a batch's sentences, (S, H), f32.
  Variable operator()(const PackedBatch& batch) const;

  /// One forward per column instead of one for the whole batch: the same embeddings, as Sentence
  /// Transformers computes them; only for comparisons.
  void set_forward_per_column(bool on) const;

  /// Embeddings (texts, encoded_dimension()), f32, on the CPU; without dropout, whatever the mode.
  /// The folder's prompt goes before each text and its truncate_dim cuts each embedding,
  /// after normalisation (training has neither, as in Python). Where parameters are sharded all
  /// ranks call it together, each with its own texts, few or many or none.
  Tensor encode(std::span<const std::string> texts, const EncodeOptions& options = {}) const;
  Tensor encode(std::string_view text) const;  // (encoded_dimension())

  /// The encoder around another transformer, a copy of this one's (see Module::clone).
  SentenceEncoder around(std::shared_ptr<Transformer> transformer) const;

  /// Writes a folder that SentenceTransformer(path) loads; whole or not at all. Under a strategy
  /// over several ranks all call it and rank 0 writes; all return when the folder is there.
  void save(const std::filesystem::path& folder) const;

  const Tokenizer& tokenizer() const;
  const std::shared_ptr<Transformer>& transformer() const;
  const EncoderConfig& config() const;
  Pooling pooling() const;
  bool normalize() const;
  /// Kept from the folder read to the folder written.
  const SentenceConfig& sentence_config() const;
  std::int64_t max_seq_length() const;
  void set_max_seq_length(std::int64_t tokens) const;
  std::int64_t dimension() const { return config().hidden_size; }
  /// Columns of what encode() returns: dimension(), or the folder's truncate_dim where less.
  std::int64_t encoded_dimension() const;
  Device device() const;
  /// Names in the folder that the model has no use for (an LM head, an unused pooler).
  std::span<const std::string> unused_names() const;
  /// Keys of the folder's JSON files that have no effect here and may have one elsewhere, as
  /// "FILE: 'key'".
  std::span<const std::string> unused_keys() const;

 private:
  struct State;
  Variable embed(const PackedBatch& batch) const;
  std::shared_ptr<State> state_;
};

}  // namespace ringlet::models
