#include "source.h"

#include <fmt/format.h>

#include "ringlet/models/losses/softmax_loss.h"
#include "ringlet/models/tokenizer/trainer.h"
#include "ringlet/train/cli/training_data.h"
#include "ringlet/train/loader.h"

namespace ringlet::bench {
namespace {

using models::SentenceEncoder;
using models::Tokenizer;

bool is_folder(const std::string& model) { return std::filesystem::is_directory(model); }

// Drawn batches are ids, so the named models need no vocabulary of their own.
Tokenizer special_tokens(models::Architecture architecture) {
  static const std::vector<std::string> bert{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  static const std::vector<std::string> mpnet{"<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"};
  return Tokenizer::from_pieces(architecture == models::Architecture::bert ? bert : mpnet);
}

SentenceEncoder drawn_model(const ThroughputOptions& options) {
  if (is_folder(options.model)) return SentenceEncoder::from_pretrained(options.model);
  const models::EncoderConfig config = models::EncoderConfig::named(options.model);
  return {config, special_tokens(config.architecture)};
}

class DrawnSource final : public Source {
 public:
  explicit DrawnSource(const ThroughputOptions& options)
      : options_(options),
        lengths_(options.histogram),
        model_(drawn_model(options)),
        loss_(model_, 3) {}

  SentenceEncoder model() const override { return model_; }
  models::Loss& loss() override { return loss_; }
  const models::PackedBatch& next() override {
    return batch_ = lengths_.batch(step_++, options_.batch, model_.config().vocab_size,
                                   std::min(options_.max_length, model_.config().max_tokens()),
                                   options_.padded);
  }
  double tokens_per_pair() const override { return lengths_.mean_tokens_per_pair(); }
  std::string describe() const override {
    return fmt::format("lengths of {} ({:.2f} tokens per pair)", options_.histogram,
                       tokens_per_pair());
  }
  double hf_rows_per_pair() const override { return 1; }

 private:
  const ThroughputOptions& options_;
  Lengths lengths_;
  SentenceEncoder model_;
  models::SoftmaxLoss loss_;
  std::int64_t step_ = 0;
  models::PackedBatch batch_;
};

// A named model has a vocabulary learned from the files, but its own size.
SentenceEncoder model_for(const ThroughputOptions& options, const cli::TrainingData& data) {
  if (is_folder(options.model)) return SentenceEncoder::from_pretrained(options.model);
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

class FileSource final : public Source {
 public:
  explicit FileSource(const ThroughputOptions& options)
      : options_(options),
        data_(cli::read_training_data(data_options(options))),
        model_(model_for(options, data_)),
        losses_(cli::make_losses(data_, model_)),
        loader_(data_.datasets(), model_.tokenizer(),
                {.batch_size = static_cast<std::size_t>(options.batch),
                 .dealing = options.per_column ? train::Dealing::round_robin
                                               : train::Dealing::proportional,
                 .max_length = std::min(options.max_length, model_.config().max_tokens()),
                 .padded = options.padded}) {}

  SentenceEncoder model() const override { return model_; }
  models::Loss& loss() override { return *losses_.all; }
  const models::PackedBatch& next() override {
    const models::PackedBatch* batch = loader_.next();
    if (!batch) batch = loader_.next();  // the next epoch
    tokens_ += static_cast<double>(batch->real_tokens);
    pairs_ += static_cast<double>(batch->rows);
    return *batch;
  }
  double tokens_per_pair() const override { return pairs_ > 0 ? tokens_ / pairs_ : 30; }
  std::string describe() const override {
    return fmt::format("{} rows of {} file(s)", rows(), options_.data.size());
  }
  double hf_rows_per_pair() const override {
    const auto trained = static_cast<double>(loader_.sampler().steps_per_epoch()) *
                         static_cast<double>(options_.batch);
    return static_cast<double>(rows()) / trained;
  }

 private:
  std::size_t rows() const {
    std::size_t total = 0;
    for (const auto& dataset : data_.datasets()) total += dataset->size();
    return total;
  }
  const ThroughputOptions& options_;
  cli::TrainingData data_;
  SentenceEncoder model_;
  cli::Losses losses_;
  train::Loader loader_;
  double tokens_ = 0, pairs_ = 0;
};

}  // namespace

std::unique_ptr<Source> make_source(const ThroughputOptions& options) {
  if (options.data.empty()) return std::make_unique<DrawnSource>(options);
  return std::make_unique<FileSource>(options);
}

}  // namespace ringlet::bench
