// The losses of `ringlet train` by name: their columns, their options, and their making.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/models/losses/losses.h"
#include "ringlet/train/data/dataset.h"
#include "ringlet/train/data/sampler.h"

namespace ringlet::cli {

class Command;

enum class LossKind {
  softmax,
  cosine,
  cosent,
  angle,
  mnrl,
  symmetric,
  triplet,
  contrastive,
  online_contrastive,
  batch_hard,
  mse
};
inline constexpr EnumNames<LossKind, 11> kLosses{
    "loss",
    {"softmax", "cosine", "cosent", "angle", "mnrl", "symmetric", "triplet", "contrastive",
     "online_contrastive", "batch_hard", "mse"}};

/// Options of losses that have them; unset: the loss's default.
struct LossOptions {
  std::optional<double> scale, margin;
  std::optional<models::Distance> distance;
  std::optional<models::Negatives> negatives;
  std::vector<std::int64_t> matryoshka_dims;  // empty: whole embeddings
};

void add_loss_options(Command& command, LossOptions& options);

/// InputError for an option that none of the losses has.
void check_loss_options(const LossOptions& options, const std::vector<LossKind>& losses);

/// The loss that the columns call for; `where` names the file in errors.
LossKind deduce_loss(const train::TextDataset& data, const std::string& where);
/// InputError unless the data set has the loss's columns.
void check_suits(const train::TextDataset& data, LossKind loss, const std::string& where);
/// The sampler that the loss needs; none for any.
std::optional<train::BatchSampler> sampler_of(LossKind loss);

/// `classes`: of softmax.
std::shared_ptr<models::EmbeddingLoss> make_loss(LossKind kind, const LossOptions& options,
                                                 const models::SentenceEncoder& encoder,
                                                 int classes);

}  // namespace ringlet::cli
