#include "source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lengths.h"
#include "ringlet/models/folder.h"
#include "ringlet/models/tokenizer/trainer.h"
#include "ringlet/train/cli/training_data.h"
#include "ringlet/train/data/loader.h"

namespace ringlet::bench {
namespace {

using models::SentenceEncoder;
using models::Tokenizer;

/// A folder's, or a new one of a named model with the tokenizer that `tokenizer(config)` gives.
template <class MakeTokenizer>
SentenceEncoder model_of(const std::string& name, const MakeTokenizer& tokenizer) {
  if (models::names_folder(name)) return SentenceEncoder::from_pretrained(name);
  const auto config = models::EncoderConfig::named(name);
  return {config, tokenizer(config)};
}

// Drawn batches are ids, so the named models need only the special tokens.
Tokenizer special_tokens(const models::EncoderConfig& config) {
  static const std::vector<std::string> bert{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  static const std::vector<std::string> mpnet{"<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"};
  return Tokenizer::from_pieces(config.architecture == models::Architecture::bert ? bert : mpnet);
}

class DrawnSource final : public Source {
 public:
  DrawnSource(const ThroughputOptions& options, Share share)
      : options_(options),
        share_(share),
        lengths_(options.histogram),
        model_(model_of(options.model, special_tokens)),
        loss_(cli::make_loss(cli::kLosses.parse(options.loss), options.loss_options, model_, 3)) {}

  SentenceEncoder& model() override { return model_; }
  models::Loss& loss() override { return *loss_; }
  const models::PackedBatch& next() override {
    return batch_ = lengths_.batch(
               step_++, options_.batch * share_.devices * share_.ranks, model_.config().vocab_size,
               std::min(options_.max_length, model_.config().max_tokens()), options_.padded,
               static_cast<std::size_t>(share_.rank), static_cast<std::size_t>(share_.ranks));
  }

 private:
  const ThroughputOptions& options_;
  Share share_;
  Lengths lengths_;
  SentenceEncoder model_;
  std::shared_ptr<models::Loss> loss_;
  std::int64_t step_ = 0;
  models::PackedBatch batch_;
};

cli::TrainingData read_files(const ThroughputOptions& options) {
  cli::DataOptions files;
  files.data = options.data;
  files.losses = options.loss_options;
  return cli::read_training_data(files);
}

std::size_t rows(const train::Datasets& datasets) {
  std::size_t total = 0;
  for (const auto& dataset : datasets) total += dataset->size();
  return total;
}

// A named model has a vocabulary learned from the files, but keeps its size.
SentenceEncoder model_for(const cli::TrainingData& data, const std::string& name) {
  return model_of(name, [&](const models::EncoderConfig& config) {
    const auto family = config.architecture == models::Architecture::mpnet
                            ? models::TokenizerFamily::kMpnet
                            : models::TokenizerFamily::kBert;
    return models::train_tokenizer(data.texts(),
                                   {.family = family, .vocab_size = config.vocab_size});
  });
}

class FileSource final : public Source {
 public:
  FileSource(const ThroughputOptions& options, Share share, const cli::TrainingData& data)
      : model_(model_for(data, options.model)),
        loss_(cli::make_losses(data, options.loss_options, model_).all),
        loader_(data.datasets(), model_.tokenizer(),
                {.batch_size = static_cast<std::size_t>(options.batch),
                 .dealing = options.per_column() ? train::Dealing::round_robin
                                                 : train::Dealing::proportional,
                 .max_length = std::min(options.max_length, model_.config().max_tokens()),
                 .padded = options.padded,
                 .rank = static_cast<std::size_t>(share.rank),
                 .world_size = static_cast<std::size_t>(share.ranks),
                 .devices = static_cast<std::size_t>(share.devices)}) {}

  SentenceEncoder& model() override { return model_; }
  models::Loss& loss() override { return *loss_; }
  const models::PackedBatch& next() override {
    const models::PackedBatch* batch = loader_.next();
    if (!batch) batch = loader_.next();  // at the next epoch
    return *batch;
  }
  double hf_rows_per_pair() const override {
    double trained = 0;
    for (std::size_t step = 0; step < loader_.sampler().steps_per_epoch(); ++step)
      trained += static_cast<double>(loader_.sampler().batch(0, step).rows.size());
    return static_cast<double>(rows(loader_.datasets())) / trained;
  }

 private:
  SentenceEncoder model_;
  std::shared_ptr<models::Loss> loss_;
  train::Loader loader_;
};

}  // namespace

std::unique_ptr<Source> make_source(const ThroughputOptions& options, Share share) {
  if (options.data.empty()) return std::make_unique<DrawnSource>(options, share);
  return std::make_unique<FileSource>(options, share, read_files(options));
}

std::string describe_data(const ThroughputOptions& options) {
  if (!options.data.empty())
    return fmt::format("{} rows of {}", rows(read_files(options).datasets()),
                       fmt::join(options.data, ", "));
  const bool ranking = options.loss == "mnrl";
  const auto negatives = options.loss_options.negatives.value_or(models::Negatives::global);
  return fmt::format("lengths of {} ({:.2f} tokens per pair), loss {}{}",
                     std::filesystem::path(options.histogram).filename().string(),
                     Lengths(options.histogram).mean_tokens_per_pair(), options.loss,
                     ranking ? str(" with ", models::kNegatives(negatives), " negatives") : "");
}

}  // namespace ringlet::bench
