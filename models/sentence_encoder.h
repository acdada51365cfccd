// A sentence encoder: tokenizer, transformer, pooling and the modules after it, as in a Sentence
// Transformers folder.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/models/batch.h"
#include "ringlet/models/modules/sentence_modules.h"
#include "ringlet/models/sentence_config.h"
#include "ringlet/models/tokenizer/tokenizer.h"

namespace ringlet::models {

using Pooling = PoolingMode;  // mean, cls or max

struct EncodeOptions {
  /// Tokens of one forward. Distinct sentences are sorted by length and divided into batches of
  /// about this many.
  std::int64_t batch_tokens = 4096;
  /// If set, the tokenizer's seconds are added here.
  double* tokenizing_s = nullptr;
  /// A name among the folder's prompts; unset: the default one; empty: none.
  std::optional<std::string> prompt_name = {};
  /// Instead, the prompt itself.
  std::optional<std::string> prompt = {};
  /// Leading columns of each embedding; unset: the folder's truncate_dim.
  std::optional<std::int64_t> truncate_dim = {};
  /// Only every `ranks`-th of these batches, from `rank` on; the other rows are zeros.
  std::size_t rank = 0, ranks = 1;
};

/// A handle: copies share one model.
class SentenceEncoder {
 public:
  /// A model with random weights (from the thread's generator).
  SentenceEncoder(const EncoderConfig& config, Tokenizer tokenizer, Pooling pooling = Pooling::mean,
                  bool normalize = false);
  /// From given parts; sentences may be as long as both tokenizer and transformer allow.
  SentenceEncoder(std::shared_ptr<Transformer> transformer, Tokenizer tokenizer,
                  Pooling pooling = Pooling::mean, bool normalize = false);
  SentenceEncoder(std::shared_ptr<SentenceModules> modules, Tokenizer tokenizer);
  /// Reads a Sentence Transformers folder, or a folder of a bare BERT or MPNet checkpoint (then
  /// with mean pooling). See models/folder.h for the files; weights are mapped and read at first
  /// use. `model` is a folder, or "organisation/name" in Hugging Face's cache (cached_folder).
  static SentenceEncoder from_pretrained(const std::filesystem::path& model,
                                         Device device = default_device());

  /// Embeddings of a batch's sentences, (S, dimension()), f32.
  Variable operator()(const PackedBatch& batch) const;

  /// One forward per column instead of one for the whole batch, as in Sentence Transformers. The
  /// embeddings are the same; for comparisons only.
  void set_forward_per_column(bool on) const { state_->forward_per_column = on; }

  /// Embeddings (texts, encoded_dimension()), f32, on the CPU; without dropout, whatever the mode.
  /// The folder's prompt goes before each text. truncate_dim cuts each embedding behind the last
  /// module, so a cut embedding is not normalised again. Training has neither, as in Python. Where
  /// parameters are sharded all ranks call it together, each with its own texts, few or many or
  /// none.
  Tensor encode(std::span<const std::string> texts, const EncodeOptions& options = {}) const;
  Tensor encode(std::string_view text) const;  // (encoded_dimension())
  /// The text before each text under these options. InputError for an unknown name, or if the
  /// pooling would leave a prompt out.
  std::string prompt(const EncodeOptions& options) const;

  /// The encoder with other modules, copies of this one's (see nn::clone).
  SentenceEncoder around(std::shared_ptr<SentenceModules> modules) const;

  /// Writes a folder that SentenceTransformer(path) loads; completely or not at all. Under a
  /// strategy over several ranks all call it and rank 0 writes; all return when the folder exists.
  /// `model_card` is the text of README.md; empty: none.
  void save(const std::filesystem::path& folder, std::string_view model_card = {}) const;

  const Tokenizer& tokenizer() const { return state_->tokenizer; }
  /// All that is trained: a loss registers it, without a name.
  const std::shared_ptr<SentenceModules>& modules() const { return state_->modules; }
  const std::shared_ptr<Transformer>& transformer() const { return modules()->transformer(); }
  const EncoderConfig& config() const { return transformer()->config(); }
  Pooling pooling() const { return modules()->pooling(); }
  /// Whether the last module is Normalize.
  bool normalize() const;
  /// Copied from the folder read to the folder written.
  const SentenceConfig& sentence_config() const { return state_->config; }
  void set_truncate_dim(std::optional<std::int64_t> columns) const;
  /// cosine, dot, euclidean or manhattan; else InputError.
  void set_similarity_fn_name(const std::string& name) const;
  std::int64_t max_seq_length() const { return tokenizer().max_length(); }
  void set_max_seq_length(std::int64_t tokens) const;
  /// Columns of the last module's result.
  std::int64_t dimension() const { return modules()->dimension(); }
  /// Columns of encode()'s result: dimension(), or `truncate_dim` (unset: the folder's) if less.
  std::int64_t encoded_dimension(std::optional<std::int64_t> truncate_dim = {}) const;
  Device device() const { return transformer()->device(); }
  /// Weights in the folder that the model does not use (an LM head, an unused pooler).
  std::span<const std::string> unused_names() const { return state_->unused; }
  /// Keys of the folder's JSON files that have no effect here but may have one in other libraries,
  /// as "FILE: 'key'".
  std::span<const std::string> unused_keys() const { return state_->unused_keys; }

 private:
  struct State {
    std::shared_ptr<SentenceModules> modules;
    Tokenizer tokenizer;
    std::vector<std::string> unused;       // weights
    std::vector<std::string> unused_keys;  // of JSON files
    bool forward_per_column = false;
    bool include_prompt = true;
    SentenceConfig config = {};
  };
  std::shared_ptr<State> state_;
};

}  // namespace ringlet::models
