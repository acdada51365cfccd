#include "source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "lengths.h"
#include "ringlet/models/folder.h"
#include "ringlet/models/tokenizer/trainer.h"
#include "ringlet/train/cli/training_data.h"

namespace ringlet::bench {
namespace {

using models::SentenceEncoder;
using models::Tokenizer;

constexpr std::int64_t kMaxLength = 384;  // tokens of a sentence

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

std::optional<SentenceEncoder> prepared;

Source drawn_source(const ThroughputOptions& options, Share share) {
  constexpr std::size_t kSteps = std::size_t{1} << 40;  // more than any run has
  SentenceEncoder model =
      prepared ? *std::exchange(prepared, std::nullopt) : model_of(options.model, special_tokens);
  auto loss = cli::make_loss(cli::parse_loss(options.loss), options.loss_options, model, 3);
  const auto draw = [lengths = Lengths(options.histogram),
                     rows = options.batch * share.devices * share.ranks,
                     vocabulary = model.config().vocab_size,
                     max_length = std::min(kMaxLength, model.config().max_tokens()),
                     padded = options.padded, share](const train::Rows& step) {
    return lengths.batch(static_cast<std::int64_t>(step[0]), rows, vocabulary, max_length, padded,
                         static_cast<std::size_t>(share.rank),
                         static_cast<std::size_t>(share.ranks));
  };
  auto loader = std::make_unique<train::Loader<models::PackedBatch>>(
      kSteps, draw, train::LoaderOptions{.batch_size = 1, .shuffle = false});
  return {std::move(model), std::move(loss), std::move(loader)};
}

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

Source file_source(const ThroughputOptions& options, Share share) {
  const cli::TrainingData data = read_files(options);
  SentenceEncoder model = model_for(data, options.model);
  auto loss = cli::make_losses(data, options.loss_options, model).all;
  std::vector<bool> whole_steps;
  for (std::size_t i = 0; i < data.sources.size(); ++i) whole_steps.push_back(loss->spans_ranks(i));
  auto loader = std::make_unique<train::Loader<models::PackedBatch>>(
      data.datasets(), model.tokenizer(),
      train::LoaderOptions{.batch_size = static_cast<std::size_t>(options.batch),
                           .whole_steps = std::move(whole_steps),
                           .dealing = options.per_column() ? train::Dealing::round_robin
                                                           : train::Dealing::proportional,
                           .max_length = std::min(kMaxLength, model.config().max_tokens()),
                           .padded = options.padded,
                           .rank = static_cast<std::size_t>(share.rank),
                           .world_size = static_cast<std::size_t>(share.ranks),
                           .logical_ranks = static_cast<std::size_t>(options.logical_ranks),
                           .equal_batches = share.equal_batches,
                           .devices = static_cast<std::size_t>(share.devices)});
  double trained = 0;
  for (const std::size_t used : loader->sampler().rows_per_epoch())
    trained += static_cast<double>(used);
  const double all = static_cast<double>(rows(data.datasets()));
  return {std::move(model), std::move(loss), std::move(loader), all / trained};
}

}  // namespace

std::size_t prepare_model(const ThroughputOptions& options) {
  if (!options.data.empty() || models::names_folder(options.model)) return 0;
  if (!prepared) prepared = model_of(options.model, special_tokens);
  return static_cast<std::size_t>(prepared->modules()->num_parameters()) * sizeof(float);
}

Source make_source(const ThroughputOptions& options, Share share) {
  return options.data.empty() ? drawn_source(options, share) : file_source(options, share);
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
