// Encoding by all ranks of a group together. A folder keeps embeddings, so that a run that was
// stopped need not compute them again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "ringlet/comm/group.h"
#include "ringlet/models/sentence_encoder.h"

namespace ringlet::train {

/// The first row of a table (rows, H), f32 on a CPU, with a number that is not finite.
std::optional<std::size_t> row_not_finite(const Tensor& table);

/// Embeddings (texts, H) of the same texts on every rank, each of which encodes its share. Every
/// rank receives all of them, with the bits that one rank alone would compute. InputError, on every
/// rank, that names a text with an embedding that is not finite.
Tensor encode_together(const models::SentenceEncoder& model, std::span<const std::string> texts,
                       const models::EncodeOptions& options, const comm::Group& group);

/// The role of a text, for which a folder may have a prompt: "query" or "document". A plain text
/// has the folder's default prompt.
enum class TextRole { plain, query, document };
/// `options` with the prompt of the role, unless it names one. Without such a prompt there is none,
/// not even the default one, as in Sentence Transformers' encode_query.
models::EncodeOptions for_role(TextRole role, const models::SentenceEncoder& model,
                               models::EncodeOptions options);

/// Embeddings (texts, H) by all ranks together; see encode_together.
Tensor encode_as(TextRole role, const models::SentenceEncoder& model,
                 std::span<const std::string> texts, const models::EncodeOptions& options,
                 const comm::Group& group);

/// A file for each block of texts. Its name comes from the model, the prompt and the texts.
class EmbeddingCache {
 public:
  EmbeddingCache() = default;  // keeps nothing
  /// Makes the folder if it is missing. `model` is a hash of all that decides about embeddings, for
  /// instance of hash_folder() and options.
  EmbeddingCache(std::filesystem::path folder, std::uint64_t model);

  bool is_open() const { return !folder_.empty(); }
  /// The rows of these texts, (texts, H); none if the folder does not have them.
  std::optional<Tensor> find(const std::string& prompt, std::span<const std::string> texts) const;
  void add(const std::string& prompt, std::span<const std::string> texts,
           const Tensor& embeddings) const;

 private:
  std::filesystem::path file_of(const std::string& prompt,
                                std::span<const std::string> texts) const;

  std::filesystem::path folder_;
  std::uint64_t model_ = 0;
};

/// A hash of the names and contents of the .json, .safetensors and .txt files in a model's folder
/// and its subfolders, also linked ones. InputError if it cannot be read.
std::uint64_t hash_folder(const std::filesystem::path& folder);

/// Embeds texts 8192 at a time, by all ranks of the group together, and passes each block's (n, H)
/// to `use` on every rank, in order. Rank 0's cache counts; all ranks have one or none has.
void for_each_block(const models::SentenceEncoder& model, std::span<const std::string> texts,
                    const models::EncodeOptions& options, const EmbeddingCache& cache,
                    const comm::Group& group, const std::function<void(const Tensor&)>& use);

/// The embeddings of all texts in one table on the CPU, (texts, H).
Tensor embed_blocks(const models::SentenceEncoder& model, std::span<const std::string> texts,
                    const models::EncodeOptions& options, const comm::Group& group,
                    const EmbeddingCache& cache = {});

}  // namespace ringlet::train
