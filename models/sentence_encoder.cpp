#include "ringlet/models/sentence_encoder.h"

#include <algorithm>

#include "ringlet/autograd/functions.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/io/atomic_folder.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/distinct_sentences.h"
#include "ringlet/models/encoder_layer.h"
#include "ringlet/models/folder.h"
#include "ringlet/models/modules/after_pooling.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"
#include "ringlet/nn/eval_guard.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::models {
namespace {

void check_vocabulary(const EncoderConfig& config, const Tokenizer& tokenizer,
                      const std::string& source) {
  if (tokenizer.vocab_size() > config.vocab_size)
    fail_input(source, ": the tokenizer has ", tokenizer.vocab_size(),
               " pieces, the model's vocabulary ", config.vocab_size);
}

Tokenizer read_tokenizer(SentenceSettings& settings) {
  TokenizerConfig overrides;
  if (!settings.tokenizer_settings.empty())
    overrides = read_tokenizer_config(
        {Json::parse(settings.tokenizer_settings), settings.tokenizer_source, &settings.notes});
  return Tokenizer(read_tokenizer_folder(settings.transformer, overrides, settings.notes));
}

// Releases of Sentence Transformers differ in whether lowercasing strips accents, too.
void check_case(const SentenceSettings& settings, const Tokenizer& tokenizer) {
  const auto* normalizer = std::get_if<BertNormalizer>(&tokenizer.model().normalizer);
  if (settings.do_lower_case && !(normalizer && normalizer->lowercase))
    fail_input(
        (settings.transformer / "sentence_bert_config.json").string(),
        ": do_lower_case: true is not supported with a tokenizer that keeps case; lower-case "
        "in its normalizer");
}

std::vector<std::string> with_prompt(const std::string& prompt,
                                     std::span<const std::string> texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) out.push_back(prompt + text);
  return out;
}

/// Checks the lengths in a folder's files; 0 where a file has none.
void check_room(const Tokenizer& tokenizer, std::int64_t tokens, const char* key,
                const std::filesystem::path& source) {
  const std::int64_t special = tokenizer.model().post_processor.added(false);
  if (tokens != 0 && tokens < special)
    fail_input(source.string(), ": ", key, ": expected room for the ", special,
               " special tokens of a text, got ", tokens);
}

SentenceModules::After after_pooling(bool normalize) {
  if (!normalize) return {};
  return {std::make_shared<modules::Normalize>()};
}

struct Range {
  std::size_t begin, end;
};

/// Batches of about `batch_tokens` tokens each.
std::vector<Range> cut(const DistinctSentences& sentences, std::size_t batch_tokens) {
  std::vector<Range> batches;
  for (std::size_t begin = 0; begin < sentences.size(); begin = batches.back().end) {
    std::size_t tokens = 0, end = begin;
    for (; end < sentences.size() && (end == begin || tokens < batch_tokens); ++end)
      tokens += sentences.ids(end).size();
    batches.push_back({begin, end});
  }
  return batches;
}

}  // namespace

SentenceEncoder::SentenceEncoder(const EncoderConfig& config, Tokenizer tokenizer, Pooling pooling,
                                 bool normalize)
    : SentenceEncoder(Transformer::create(config), std::move(tokenizer), pooling, normalize) {}

SentenceEncoder::SentenceEncoder(std::shared_ptr<Transformer> transformer, Tokenizer tokenizer,
                                 Pooling pooling, bool normalize)
    : SentenceEncoder(std::make_shared<SentenceModules>(std::move(transformer), pooling,
                                                        after_pooling(normalize)),
                      std::move(tokenizer)) {}

SentenceEncoder::SentenceEncoder(std::shared_ptr<SentenceModules> modules, Tokenizer tokenizer)
    : state_(std::make_shared<State>(State{std::move(modules), std::move(tokenizer), {}, {}})) {
  check_vocabulary(config(), state_->tokenizer, "model");
  const std::int64_t limit = state_->tokenizer.max_length();
  set_max_seq_length(limit > 0 ? std::min(limit, config().max_tokens()) : config().max_tokens());
}

SentenceEncoder SentenceEncoder::from_pretrained(const std::filesystem::path& model,
                                                 Device device) {
  const std::filesystem::path folder = cached_folder(model);
  SentenceSettings settings = read_settings(folder);
  const EncoderConfig config =
      EncoderConfig::from_file(settings.transformer / "config.json", &settings.notes);
  SentenceModules::After after =
      read_modules_after(settings.after, config.hidden_size, settings.notes);
  Tokenizer tokenizer = read_tokenizer(settings);
  check_vocabulary(config, tokenizer, folder.string());
  check_case(settings, tokenizer);
  check_room(tokenizer, config.max_tokens(), "tokens that max_position_embeddings allow",
             settings.transformer / "config.json");
  check_room(tokenizer, settings.max_seq_length, "max_seq_length",
             settings.transformer / "sentence_bert_config.json");

  std::shared_ptr<Transformer> transformer;
  {
    const BlankWeights without_memory;
    transformer = Transformer::create(config);
  }
  std::vector<std::string> unused =
      load_weights(settings.transformer, *transformer, &settings.notes);
  const auto modules =
      std::make_shared<SentenceModules>(transformer, settings.pooling, std::move(after));
  modules->to(device);
  SentenceEncoder encoder(modules, std::move(tokenizer));
  encoder.state_->unused = std::move(unused);
  encoder.state_->unused_keys = std::move(settings.notes);
  encoder.state_->include_prompt = settings.include_prompt;
  encoder.state_->config = settings.config;
  if (settings.max_seq_length > 0)
    encoder.set_max_seq_length(std::min(settings.max_seq_length, config.max_tokens()));
  return encoder;
}

Variable SentenceEncoder::operator()(const PackedBatch& batch) const {
  if (!state_->forward_per_column || batch.columns == 1) return (*modules())(batch);
  std::vector<Variable> columns;
  for (std::int64_t c = 0; c < batch.columns; ++c) columns.push_back((*modules())(batch.column(c)));
  return autograd::concat(columns, 0);
}

Tensor SentenceEncoder::encode(std::span<const std::string> texts,
                               const EncodeOptions& options) const {
  RINGLET_CHECK(options.batch_tokens > 0, "[encode] batches of ", options.batch_tokens, " tokens");
  RINGLET_CHECK(options.truncate_dim.value_or(1) > 0, "[encode] truncate_dim ",
                *options.truncate_dim);
  RINGLET_CHECK(options.rank < options.ranks, "[encode] rank ", options.rank, " of ",
                options.ranks);
  const autograd::NoGrad no_grad;
  const nn::EvalGuard evaluating(*state_->modules);
  const double start = steady_seconds();
  const std::string prompt = this->prompt(options);
  const PackedEncoding encoded = prompt.empty()
                                     ? state_->tokenizer.encode_batch(texts)
                                     : state_->tokenizer.encode_batch(with_prompt(prompt, texts));
  if (options.tokenizing_s != nullptr) *options.tokenizing_s += steady_seconds() - start;
  const DistinctSentences sentences(encoded);
  std::vector<Range> batches;
  const auto all = cut(sentences, static_cast<std::size_t>(options.batch_tokens));
  for (std::size_t i = options.rank; i < all.size(); i += options.ranks) batches.push_back(all[i]);
  // Forwards may be collective: a rank with fewer batches then adds empty ones.
  auto forwards = static_cast<std::int64_t>(batches.size());
  if (const auto sharding = nn::sharding_of(*state_->modules))
    forwards = sharding->forwards_together(forwards);
  batches.resize(static_cast<std::size_t>(forwards), {sentences.size(), sentences.size()});

  const std::int64_t columns = encoded_dimension(options.truncate_dim);
  Tensor out = zeros({static_cast<std::int64_t>(texts.size()), columns}, DType::f32, Device{});
  for (const auto [begin, end] : batches) {
    BatchBuilder builder;
    for (std::size_t d = begin; d < end; ++d) {
      const std::span<const std::int32_t> ids = sentences.ids(d);
      builder.add_row({&ids, 1}, static_cast<std::int64_t>(d));
    }
    const Tensor embeddings = (*this)(builder.build().to(device())).tensor().to(Device{});
    for (std::size_t d = begin; d < end; ++d)
      for (const std::size_t place : sentences.places(d))
        out[static_cast<std::int64_t>(place)].copy_(
            embeddings[static_cast<std::int64_t>(d - begin)].slice(0, columns));
  }
  return out;
}

Tensor SentenceEncoder::encode(std::string_view text) const {
  const std::string one(text);
  return encode({&one, 1})[0];
}

std::string SentenceEncoder::prompt(const EncodeOptions& options) const {
  const std::string prompt =
      options.prompt ? *options.prompt : state_->config.prompt(options.prompt_name);
  if (!prompt.empty() && !state_->include_prompt)
    fail_input("prompt ", quote(options.prompt ? prompt : *options.prompt_name),
               ": the pooling's include_prompt: false is not supported with a prompt");
  return prompt;
}

SentenceEncoder SentenceEncoder::around(std::shared_ptr<SentenceModules> modules) const {
  SentenceEncoder out = *this;
  out.state_ = std::make_shared<State>(*state_);
  out.state_->modules = std::move(modules);
  return out;
}

void SentenceEncoder::save(const std::filesystem::path& folder, std::string_view model_card) const {
  const nn::WholeParameters whole(*state_->modules);
  if (whole.writes()) {
    AtomicFolder target(folder);
    write_settings(target.path(),
                   {.include_prompt = state_->include_prompt,
                    .config = state_->config,
                    .max_seq_length = max_seq_length()},
                   *state_->modules);
    write_file(target.path() / "config.json", config().to_json());
    state_->tokenizer.save(target.path());
    if (!model_card.empty()) write_file(target.path() / "README.md", model_card);
    save_all_weights(target.path(), *state_->modules);
    target.commit();
  } else {
    save_all_weights({}, *state_->modules);
  }
  whole.barrier();
}

bool SentenceEncoder::normalize() const {
  const SentenceModules::After& after = state_->modules->after();
  return !after.empty() && dynamic_cast<const modules::Normalize*>(after.back().get()) != nullptr;
}

void SentenceEncoder::set_truncate_dim(std::optional<std::int64_t> columns) const {
  RINGLET_CHECK(columns.value_or(1) > 0, "[encode] truncate_dim ", *columns);
  state_->config.truncate_dim = columns;
}
void SentenceEncoder::set_similarity_fn_name(const std::string& name) const {
  check_similarity_fn_name(name);
  state_->config.similarity_fn_name = name;
}

std::int64_t SentenceEncoder::encoded_dimension(std::optional<std::int64_t> truncate_dim) const {
  const std::optional<std::int64_t>& cut =
      truncate_dim ? truncate_dim : state_->config.truncate_dim;
  return std::min(dimension(), cut.value_or(dimension()));
}

void SentenceEncoder::set_max_seq_length(std::int64_t tokens) const {
  RINGLET_CHECK(tokens > 0 && tokens <= config().max_tokens(), "max_seq_length ", tokens,
                " is not in 1 to ", config().max_tokens());
  state_->tokenizer.set_max_length(tokens);
}

}  // namespace ringlet::models
