// The classifier of a trained SoftmaxLoss, next to the encoder in its folder.
#pragma once

#include <filesystem>
#include <memory>

#include "ringlet/models/losses/losses.h"

namespace ringlet::cli {

/// Writes FOLDER/classifier.safetensors: weight (labels, 3 H) and bias. Other libraries ignore the
/// file. Every rank calls it, rank 0 writes.
void save_head(models::SoftmaxLoss& loss, const std::filesystem::path& folder);

/// The labels of the folder's classifier; 0 if it has none.
int head_labels(const std::filesystem::path& folder);
/// The encoder of this folder with its classifier, which must be there.
std::shared_ptr<models::SoftmaxLoss> read_head(const std::filesystem::path& folder,
                                               const models::SentenceEncoder& encoder);

}  // namespace ringlet::cli
