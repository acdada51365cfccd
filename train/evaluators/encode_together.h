// Encoding by all ranks of a group together.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/models/sentence_encoder.h"

namespace ringlet::train {

/// The first row of a table (rows, H), f32 on a CPU, with a number that is not finite.
std::optional<std::size_t> row_not_finite(const Tensor& table);

/// Texts divided among `parts`: each distinct text goes to one part, near-equal in bytes.
struct DealtTexts {
  std::vector<std::vector<std::size_t>> places;  // (distinct): the positions of each in the texts
  std::vector<std::vector<std::size_t>> parts;   // (parts): the distinct texts of each, ascending
};
DealtTexts deal_texts(std::span<const std::string> texts, std::size_t parts);

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

}  // namespace ringlet::train
