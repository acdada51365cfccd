#include "source.h"

#include <fmt/format.h>

#include "ringlet/models/folder.h"
#include "ringlet/models/losses/softmax_loss.h"
#include "ringlet/models/tokenizer/trainer.h"
#include "ringlet/train/cli/training_data.h"
#include "ringlet/train/loader.h"

namespace ringlet::bench {
namespace {

using models::SentenceEncoder;
using models::Tokenizer;

// Drawn batches are ids, so the named models need only the special tokens.
Tokenizer special_tokens(models::Architecture architecture) {
  static const std::vector<std::string> bert{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  static const std::vector<std::string> mpnet{"<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"};
  return Tokenizer::from_pieces(architecture == models::Architecture::bert ? bert : mpnet);
}

SentenceEncoder drawn_model(const ThroughputOptions& options) {
  if (models::names_folder(options.model)) return SentenceEncoder::from_pretrained(options.model);
  const models::EncoderConfig config = models::EncoderConfig::named(options.model);
  return {config, special_tokens(config.architecture)};
}

class DrawnSource final : public Source {
 public:
  DrawnSource(const ThroughputOptions& options, Share share)
      : options_(options),
        share_(share),
        lengths_(options.histogram),
        model_(drawn_model(options)),
        loss_(model_, 3) {}

  SentenceEncoder model() const override { return model_; }
  models::Loss& loss() override { return loss_; }
  const models::PackedBatch& next() override {
    return batch_ = lengths_.batch(
               step_++, options_.batch * share_.devices * share_.ranks, model_.config().vocab_size,
               std::min(options_.max_length, model_.config().max_tokens()), options_.padded,
               static_cast<std::size_t>(share_.rank), static_cast<std::size_t>(share_.ranks));
  }
  double hf_rows_per_pair() const override { return 1; }

 private:
  const ThroughputOptions& options_;
  Share share_;
  Lengths lengths_;
  SentenceEncoder model_;
  models::SoftmaxLoss loss_;
  std::int64_t step_ = 0;
  models::PackedBatch batch_;
};

// A named model has a vocabulary learned from the files, but keeps its size.
SentenceEncoder model_for(const ThroughputOptions& options, const cli::TrainingData& data) {
  if (models::names_folder(options.model)) return SentenceEncoder::from_pretrained(options.model);
  const models::EncoderConfig config = models::EncoderConfig::named(options.model);
  const auto family = config.architecture == models::Architecture::mpnet
                          ? models::TokenizerFamily::kMpnet
                          : models::TokenizerFamily::kBert;
  return {config, models::train_tokenizer(data.texts(),
                                          {.family = family, .vocab_size = config.vocab_size})};
}

cli::DataOptions data_options(const ThroughputOptions& options) {
  cli::DataOptions out;
  out.data = options.data;
  return out;
}

std::size_t rows(const cli::TrainingData& data) {
  std::size_t total = 0;
  for (const auto& dataset : data.datasets()) total += dataset->size();
  return total;
}

class FileSource final : public Source {
 public:
  FileSource(const ThroughputOptions& options, Share share)
      : data_(cli::read_training_data(data_options(options))),
        model_(model_for(options, data_)),
        losses_(cli::make_losses(data_, model_)),
        loader_(data_.datasets(), model_.tokenizer(),
                {.batch_size = static_cast<std::size_t>(options.batch),
                 .dealing = options.per_column ? train::Dealing::round_robin
                                               : train::Dealing::proportional,
                 .max_length = std::min(options.max_length, model_.config().max_tokens()),
                 .padded = options.padded,
                 .rank = static_cast<std::size_t>(share.rank),
                 .world_size = static_cast<std::size_t>(share.ranks),
                 .devices = static_cast<std::size_t>(share.devices)}) {}

  SentenceEncoder model() const override { return model_; }
  models::Loss& loss() override { return *losses_.all; }
  const models::PackedBatch& next() override {
    const models::PackedBatch* batch = loader_.next();
    if (!batch) batch = loader_.next();  // at the next epoch
    return *batch;
  }
  double hf_rows_per_pair() const override {
    double trained = 0;
    for (std::size_t step = 0; step < loader_.sampler().steps_per_epoch(); ++step)
      trained += static_cast<double>(loader_.sampler().batch(0, step).rows.size());
    return static_cast<double>(rows(data_)) / trained;
  }

 private:
  cli::TrainingData data_;
  SentenceEncoder model_;
  cli::Losses losses_;
  train::Loader loader_;
};

}  // namespace

std::unique_ptr<Source> make_source(const ThroughputOptions& options, Share share) {
  if (options.data.empty()) return std::make_unique<DrawnSource>(options, share);
  return std::make_unique<FileSource>(options, share);
}

DataSummary describe_data(const ThroughputOptions& options) {
  if (!options.data.empty()) {
    const cli::TrainingData data = cli::read_training_data(data_options(options));
    constexpr double kGuess = 30;  // the real number is counted during the run
    return {fmt::format("{} rows of {} file(s)", rows(data), options.data.size()), kGuess};
  }
  const double mean = Lengths(options.histogram).mean_tokens_per_pair();
  return {fmt::format("lengths of {} ({:.2f} tokens per pair)", options.histogram, mean), mean};
}

}  // namespace ringlet::bench
