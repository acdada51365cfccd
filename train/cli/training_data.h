// The data of `ringlet train`: files, each with a loss, or the project's own data.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/models/losses/losses.h"
#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/cli/evaluation_data.h"
#include "ringlet/train/cli/inputs.h"
#include "ringlet/train/cli/loss_kind.h"
#include "ringlet/train/data/loader.h"
#include "ringlet/train/data/readers.h"

namespace ringlet::cli {

/// More classes than this are a mistake, an id read as a label, unless --num-labels says otherwise.
inline constexpr int kMaxGuessedLabels = 1000;

struct DataOptions {
  std::vector<std::string> data;   // FILE or FILE:LOSS
  const LossKind* loss = nullptr;  // for files that name none; null: by their columns
  LossOptions losses;
  std::string teacher;            // a folder, for mse
  std::vector<std::string> eval;  // see read_evaluation_data
  std::string columns;            // renames, "premise=sentence1,…", each of some file's column
  std::vector<std::string> split, eval_split, score_scale;  // VALUE, or FILE=VALUE; see PerFile
  int num_labels = 0;  // classes allowed; 0: as many as there are, to kMaxGuessedLabels
  int readers = 1;     // ranks that read each file
  std::uint64_t seed = 0;
};

/// One data set and its loss.
struct Source {
  std::shared_ptr<const train::TextDataset> dataset;
  const LossKind* loss = nullptr;
};

struct TrainingData {
  std::vector<Source> sources;
  std::vector<EvaluationData> eval;

  train::Datasets datasets() const;
  std::vector<std::string> texts() const;
  std::vector<train::FileReport> reports() const;
  /// The source with the columns of an evaluation data set, which has its loss; none if no source
  /// has such columns.
  std::optional<std::size_t> source_like(const train::TextDataset& dataset) const;
};

/// Reads all files; with none given, makes the project's own NLI and scored pairs. A loss that does
/// not suit its columns is InputError that names the file.
TrainingData read_training_data(const DataOptions& options);

/// Gives the data sets of mse the teacher's embeddings of their first column, which all ranks
/// compute together.
void set_teacher_targets(TrainingData& data, const std::string& teacher,
                         const models::SentenceEncoder& student, const comm::Group& group);

/// The loss of each source over one encoder, in one module.
struct Losses {
  std::shared_ptr<models::Loss> all;
  std::shared_ptr<models::SoftmaxLoss> classifier;  // the first one, if there is one
  std::vector<std::string> kinds;                   // the class of each source's
};
Losses make_losses(const TrainingData& data, const LossOptions& options,
                   const models::SentenceEncoder& encoder);

}  // namespace ringlet::cli
