// Encoding by all ranks of a group.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/models/sentence_encoder.h"

namespace ringlet::train {

/// Texts shared out among `parts`: each distinct one to one part, near-equal in bytes.
struct DealtTexts {
  std::vector<std::vector<std::size_t>> places;  // (distinct): where each stands among the texts
  std::vector<std::vector<std::size_t>> parts;   // (parts): of the distinct ones, ascending
};
DealtTexts deal_texts(std::span<const std::string> texts, std::size_t parts);

/// Embeddings (texts, H) of the same texts on every rank, each of which encodes its share. Every
/// rank gets all of them, with the bits that one rank alone would give them.
Tensor encode_together(const models::SentenceEncoder& model, std::span<const std::string> texts,
                       const models::EncodeOptions& options, const comm::Group& group);

}  // namespace ringlet::train
