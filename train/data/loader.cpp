#include "ringlet/train/data/loader.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "ringlet/core/threads/thread.h"
#include "ringlet/train/data/readers.h"

namespace ringlet::train {

std::vector<std::vector<std::size_t>> deal_rows(const std::vector<std::int64_t>& tokens,
                                                std::size_t parts) {
  std::vector<std::vector<std::size_t>> dealt(parts);
  const std::size_t room = (tokens.size() + parts - 1) / parts;
  std::vector<std::size_t> order(tokens.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tokens[a] > tokens[b]; });
  // The longest remaining row goes to the part with the fewest tokens that has room.
  std::vector<std::int64_t> load(parts);
  for (const std::size_t row : order) {
    std::size_t best = parts;
    for (std::size_t part = 0; part < parts; ++part)
      if (dealt[part].size() < room && (best == parts || load[part] < load[best])) best = part;
    dealt[best].push_back(row);
    load[best] += tokens[row];
  }
  for (std::vector<std::size_t>& rows : dealt) std::sort(rows.begin(), rows.end());
  return dealt;
}

namespace {

/// Batches that lie ready at most.
constexpr std::size_t kAhead = 3;

/// The labels of a batch without rows.
Tensor no_labels(const TextDataset& data) {
  if (data.target() == Target::embedding)
    return empty({0, data.embeddings().size(1)}, DType::f32, Device{});
  return empty({0}, data.target() == Target::label ? DType::i64 : DType::f32, Device{});
}

std::vector<const TextDataset*> pointers(const Datasets& datasets) {
  std::vector<const TextDataset*> all;
  for (const auto& dataset : datasets) all.push_back(dataset.get());
  return all;
}

}  // namespace

Loader::Loader(Datasets datasets, const models::Tokenizer& tokenizer, LoaderOptions options,
               const comm::Group& group)
    : datasets_(std::move(datasets)),
      options_(dealt(options, group)),
      of_group_(group.size() > 1),
      pad_id_(std::max<std::int32_t>(0, tokenizer.special().pad)) {
  RINGLET_CHECK(options_.devices > 0, "[Loader] devices: expected at least 1, found 0");
  RINGLET_CHECK(options_.rank < options_.world_size, "[Loader] rank ", options_.rank, " of ",
                options_.world_size);
  make_sampler();
  models::Tokenizer limited = tokenizer;
  const std::int64_t limit = tokenizer.max_length();
  if (options_.max_length > 0 && (limit == 0 || options_.max_length < limit))
    limited.set_max_length(options_.max_length);
  options_.max_length = limited.max_length();
  for (const auto& dataset : datasets_) caches_.emplace_back(*dataset, limited, options_.prompts);
}

Loader::Loader(const std::filesystem::path& file, const models::Tokenizer& tokenizer,
               LoaderOptions options, const comm::Group& group)
    : Loader(Datasets{std::make_shared<TextDataset>(read_dataset(file))}, tokenizer, options,
             group) {}

Loader::~Loader() { stop(); }

void Loader::make_sampler() {
  sampler_.emplace(pointers(datasets_), SamplerOptions{.seed = options_.seed,
                                                       .batch_size = options_.rows_per_step(),
                                                       .dealing = options_.dealing,
                                                       .shuffle = options_.shuffle,
                                                       .batch_sampler = options_.batch_sampler});
}

void Loader::deal(const comm::Group& group, std::size_t accumulation, bool split_batches) {
  stop();
  options_ = dealt(options_, group, accumulation, split_batches);
  of_group_ = group.size() > 1;
  make_sampler();
}

UpdateArguments Loader::arguments() const {
  UpdateArguments all{{kRowsOfAStep, str(options_.rows_per_step())},
                      {kOrder, options_.shuffle ? kShuffled : kAsGiven},
                      {"--dealing", str(kDealings(options_.dealing))},
                      {"--batch-sampler", str(kBatchSamplers(options_.batch_sampler))},
                      {"--max-length", options_.max_length > 0 ? str(options_.max_length) : "none"},
                      {"--mini-batch-size", str(options_.mini_batch_size)},
                      {"--padded", options_.padded ? "true" : "false"},
                      {"--seed", str(options_.seed)}};
  for (const auto& [column, prompt] : options_.prompts)
    all[str("prompt (--prompt, --prompt-name) of ", column.empty() ? "every column" : column)] =
        prompt;
  for (std::size_t i = 0; i < datasets_.size(); ++i) {
    const TextDataset& dataset = *datasets_[i];
    if (digests_.size() == i) digests_.push_back(dataset.digest());
    all[i == 0 ? "--data" : str("--data ", i + 1)] = str(
        dataset.size(), " rows, SHA-256 ", digests_[i],
        dataset.target() == Target::embedding ? ", embeddings of " : "", dataset.embeddings_from());
  }
  return all;
}

void Loader::stop() {
  if (!thread_.joinable()) return;
  queue_->cancel();
  thread_.join();
}

void Loader::seek(Position position) {
  stop();
  position_ = position;
}

const models::PackedBatch* Loader::next() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  if (!thread_.joinable()) {
    queue_ = std::make_unique<Queue>(kAhead);
    thread_ = start_thread([this, from = position_] { produce(from); });
  }
  std::optional<Item> item;
  try {
    item = queue_->pop();
  } catch (...) {
    stop();
    throw;
  }
  waited_ += std::chrono::duration<double>(Clock::now() - start).count();
  RINGLET_CHECK(item, "[Loader] its thread has ended");
  const Position before = std::exchange(position_, item->after);
  *share_ = {};
  if (!item->batch) return nullptr;
  current_ = std::move(*item->batch);
  // Losses divide by the rows of the global batch: each is its part of the mean already.
  *share_ = {static_cast<std::size_t>(current_.rows), 1, before != position_};
  return &current_;
}

// ---- on the thread --------------------------------------------------------------------------

// Continues from epoch to epoch until the consumer cancels.
void Loader::produce(Position at) {
  try {
    while (produce_epoch(at)) at = {at.epoch + 1, 0};
  } catch (...) {
    queue_->close(std::current_exception());
  }
}

// False after the consumer has cancelled.
bool Loader::produce_epoch(Position at) {
  const std::size_t steps = sampler_->steps_per_epoch(at.epoch);
  RINGLET_CHECK(at.step < steps, "[Loader] epoch ", at.epoch, " has ", steps, " steps, not a step ",
                at.step);
  const Position next_epoch{at.epoch + 1, 0};
  for (; at.step < steps; ++at.step) {
    std::vector<models::PackedBatch> parts = pack(at);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Position after = at;
      if (i + 1 == parts.size()) ++after.step;
      if (after.step == steps) after = next_epoch;
      if (!queue_->push({std::move(parts[i]), after})) return false;
    }
  }
  return queue_->push({std::nullopt, next_epoch});
}

// This rank's batches of a step.
std::vector<models::PackedBatch> Loader::pack(Position at) {
  const BatchRows global = sampler_->batch(at.epoch, at.step);
  TokenCache& cache = caches_[global.dataset];
  const std::size_t parts = options_.accumulation * options_.world_size * options_.devices;
  std::vector<std::int64_t> tokens(global.rows.size());
  if (parts > 1)
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = cache.row(global.rows[i]).tokens;
  const auto dealt = deal_rows(tokens, parts);
  std::vector<models::PackedBatch> batches(batches_per_step(global.dataset));
  const std::size_t micros = options_.accumulation / batches.size();  // of each
  for (std::size_t b = 0; b < batches.size(); ++b) {
    std::vector<std::size_t> mine;
    std::vector<std::int64_t> device_rows;
    for (std::size_t device = 0; device < options_.devices; ++device) {
      const std::size_t before = mine.size();
      for (std::size_t micro = b * micros; micro < (b + 1) * micros; ++micro) {
        const auto& rows =
            dealt[(micro * options_.world_size + options_.rank) * options_.devices + device];
        mine.insert(mine.end(), rows.begin(), rows.end());
      }
      device_rows.push_back(static_cast<std::int64_t>(mine.size() - before));
    }
    batches[b] = build(global, mine);
    batches[b].forward_rows = forward_rows(micros);
    if (options_.devices > 1) batches[b].device_rows = std::move(device_rows);
  }
  return batches;
}

// A batch of several is cut into their size at most.
std::int64_t Loader::forward_rows(std::size_t micros) const {
  const std::size_t rows = options_.mini_batch_size;
  const bool whole = micros > 1 && (rows == 0 || rows > options_.batch_size);
  return static_cast<std::int64_t>(whole ? options_.batch_size : rows);
}

models::PackedBatch Loader::build(const BatchRows& global, const std::vector<std::size_t>& mine) {
  TokenCache& cache = caches_[global.dataset];
  const TextDataset& data = cache.dataset();
  models::BatchBuilder builder(static_cast<std::int64_t>(data.columns().size()));
  for (const std::size_t at : mine) {
    const std::size_t row = global.rows[at];
    builder.add_row(cache.row(row).spans(), static_cast<std::int64_t>(at));
    if (data.target() == Target::label) builder.add_label(data.label(row));
    if (data.target() == Target::score) builder.add_score(data.score(row));
    if (data.target() == Target::embedding) builder.add_embedding(data.embedding(row));
  }
  models::PackedBatch batch =
      builder.build(static_cast<std::int64_t>(global.rows.size()), options_.padded, pad_id_);
  if (mine.empty() && data.target() != Target::none) batch.labels = no_labels(data);
  batch.dataset = global.dataset;
  batch.ranks = static_cast<std::int64_t>(options_.world_size);
  batch.of_group = of_group_;
  return batch;
}

}  // namespace ringlet::train
