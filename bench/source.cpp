#include "source.h"

#include <algorithm>

#include "ringlet/models/folder.h"

namespace ringlet::bench {
namespace {

constexpr std::int64_t kMaxLength = 384;  // tokens of a sentence

// Drawn batches are ids, so the named models need only the special tokens.
models::Tokenizer special_tokens(models::Architecture architecture) {
  static const std::vector<std::string> bert{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  static const std::vector<std::string> mpnet{"<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"};
  return models::Tokenizer::from_pieces(architecture == models::Architecture::bert ? bert : mpnet);
}

models::SentenceEncoder model_of(const std::string& name) {
  if (models::names_folder(name)) return models::SentenceEncoder::from_pretrained(name);
  const auto config = models::EncoderConfig::named(name);
  return {config, special_tokens(config.architecture)};
}

}  // namespace

Source::Source(const ThroughputOptions& options, Share share)
    : options_(options),
      share_(share),
      lengths_(options.histogram),
      model_(model_of(options.model)),
      loss_(model_, 3) {}

const models::PackedBatch& Source::next() {
  return batch_ = lengths_.batch(
             step_++, options_.batch * share_.devices * share_.ranks, model_.config().vocab_size,
             std::min(kMaxLength, model_.config().max_tokens()), options_.padded,
             static_cast<std::size_t>(share_.rank), static_cast<std::size_t>(share_.ranks));
}

}  // namespace ringlet::bench
