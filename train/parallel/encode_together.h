// Encoding by all ranks of a group.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/parallel/gather_rows.h"

namespace ringlet::train {

/// Embeddings (texts, H) of the same texts on every rank, each of which encodes its share. Every
/// rank gets all of them, with the bits that one rank alone would give them.
inline Tensor encode_together(const models::SentenceEncoder& model,
                              std::span<const std::string> texts,
                              const models::EncodeOptions& options, const comm::Group& group) {
  if (group.size() == 1) return model.encode(texts, options);
  const auto step = static_cast<std::size_t>(group.size());
  std::vector<std::string> mine;
  for (auto i = static_cast<std::size_t>(group.rank()); i < texts.size(); i += step)
    mine.push_back(texts[i]);
  const Tensor embeddings = model.encode(mine, options);  // (mine, H)
  Tensor all =
      zeros({static_cast<std::int64_t>(texts.size()), model.dimension()}, DType::f32, Device{});
  for (std::int64_t i = 0; i < embeddings.size(0); ++i)
    all[group.rank() + i * group.size()].copy_(embeddings[i]);
  gather_rows(all, group);
  return all;
}

}  // namespace ringlet::train
