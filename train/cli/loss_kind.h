// The losses of `ringlet train`: one table of their names, columns, options and making.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/models/losses/losses.h"
#include "ringlet/train/data/dataset.h"
#include "ringlet/train/data/sampler.h"

namespace ringlet::cli {

struct Command;

/// Options of losses that have them; unset: the loss's default.
struct LossOptions {
  std::optional<double> scale, margin;
  std::optional<models::Distance> distance;
  std::optional<models::Negatives> negatives;
  std::vector<std::int64_t> matryoshka_dims;  // empty: whole embeddings
};

enum LossTraits : unsigned {
  kRows = 1,           // has --negatives
  kScale = 2,          // has --scale
  kMargin = 4,         // has --margin and --distance
  kWhole = 8,          // needs whole embeddings
  kClassifier = 16,    // trains a classifier of the labels
  kTeacher = 32,       // needs --teacher
  kBinary = 64,        // needs labels 0 and 1, or scores from 0 to 1
  kNoManhattan = 128,  // has no such distance
};

/// A row of the table.
struct LossKind {
  using Make = std::shared_ptr<models::EmbeddingLoss>(const models::SentenceEncoder& encoder,
                                                      const LossOptions& options, int classes);
  std::string_view name;
  Make* make;
  std::size_t fewest, most;  // text columns
  std::vector<train::Target> targets;
  const char* needs;  // in messages: "a pair of sentences and a label"
  unsigned traits = 0;
  std::optional<train::BatchSampler> sampler = {};  // that it needs; none for any
};

/// "softmax, cosine, … or mse"
std::string loss_names();
/// Null if no loss has this name.
const LossKind* find_loss(std::string_view name);
/// InputError if no loss has this name.
const LossKind& parse_loss(std::string_view name);

void add_loss_options(Command& command, LossOptions& options);

/// InputError for an option that none of the losses has.
void check_loss_options(const LossOptions& options, const std::vector<const LossKind*>& losses);

/// The loss that the columns call for; `where` names the file in errors.
const LossKind& deduce_loss(const train::TextDataset& data, const std::string& where);
/// InputError unless the data set has the loss's columns.
void check_suits(const train::TextDataset& data, const LossKind& loss, const std::string& where);

/// `classes`: of a classifier.
std::shared_ptr<models::EmbeddingLoss> make_loss(const LossKind& kind, const LossOptions& options,
                                                 const models::SentenceEncoder& encoder,
                                                 int classes);

}  // namespace ringlet::cli
