// The batches of text that a Loader gives.
#include <algorithm>
#include <numeric>

#include "ringlet/train/data/loader.h"
#include "ringlet/train/data/readers.h"
#include "ringlet/train/data/token_cache.h"

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

LoaderOptions with_limit(LoaderOptions options, const models::Tokenizer& tokenizer) {
  const std::int64_t limit = tokenizer.max_length();
  if (options.max_length == 0 || (limit != 0 && limit < options.max_length))
    options.max_length = limit;
  return options;
}

namespace {

/// The rows of a data set, tokenized and packed.
class TextRows {
 public:
  TextRows(const TextDataset& data, models::Tokenizer tokenizer, const LoaderOptions& options)
      : data_(data),
        pad_id_(std::max<std::int32_t>(0, tokenizer.special().pad)),
        padded_(options.padded),
        cache_(data, limited(std::move(tokenizer), options), options.prompts) {}

  std::int64_t tokens(std::size_t row) { return cache_.row(row).tokens; }

  /// Those at `mine` of the rows of a global batch.
  models::PackedBatch pack(std::span<const std::size_t> global,
                           const std::vector<std::size_t>& mine) {
    models::BatchBuilder builder(static_cast<std::int64_t>(data_.columns().size()));
    for (const std::size_t at : mine) {
      const std::size_t row = global[at];
      builder.add_row(cache_.row(row).spans(), static_cast<std::int64_t>(at));
      if (data_.target() == Target::label) builder.add_label(data_.label(row));
      if (data_.target() == Target::score) builder.add_score(data_.score(row));
      if (data_.target() == Target::embedding) builder.add_embedding(data_.embedding(row));
    }
    models::PackedBatch batch =
        builder.build(static_cast<std::int64_t>(global.size()), padded_, pad_id_);
    if (mine.empty() && data_.target() != Target::none) batch.labels = no_labels();
    return batch;
  }

 private:
  static models::Tokenizer limited(models::Tokenizer tokenizer, const LoaderOptions& options) {
    if (options.max_length > 0) tokenizer.set_max_length(options.max_length);
    return tokenizer;
  }

  /// The labels of a batch without rows.
  Tensor no_labels() const {
    if (data_.target() == Target::embedding)
      return empty({0, data_.embeddings().size(1)}, DType::f32, Device{});
    return empty({0}, data_.target() == Target::label ? DType::i64 : DType::f32, Device{});
  }

  const TextDataset& data_;
  std::int32_t pad_id_;
  bool padded_;
  TokenCache cache_;
};

/// `tokens`: of each row of the step.
std::vector<StepPart> deal_step(const std::vector<std::int64_t>& tokens, bool whole,
                                const LoaderOptions& options) {
  const std::size_t ranks = options.dealt_ranks();
  const auto dealt = deal_rows(tokens, options.accumulation * ranks * options.devices);
  const std::size_t of_rank = whole ? 1 : options.accumulation;  // batches
  const std::size_t micros = options.accumulation / of_rank;     // of each
  const LeafRange block = options.block();
  std::vector<StepPart> parts(of_rank * static_cast<std::size_t>(block.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    StepPart& part = parts[i];
    const std::size_t rank = static_cast<std::size_t>(block.begin) + i / of_rank, b = i % of_rank;
    for (std::size_t device = 0; device < options.devices; ++device) {
      const std::size_t before = part.rows.size();
      for (std::size_t micro = b * micros; micro < (b + 1) * micros; ++micro) {
        const auto& rows = dealt[(micro * ranks + rank) * options.devices + device];
        part.rows.insert(part.rows.end(), rows.begin(), rows.end());
      }
      part.device_rows.push_back(static_cast<std::int64_t>(part.rows.size() - before));
    }
    if (options.devices == 1) part.device_rows.clear();
    // A batch of several is cut into their size at most.
    const std::size_t rows = options.mini_batch_size;
    const bool cut = micros > 1 && (rows == 0 || rows > options.batch_size);
    part.forward_rows = static_cast<std::int64_t>(cut ? options.batch_size : rows);
    // Losses divide by the rows of the global batch: each is its part of the mean already.
    static_cast<BatchShare&>(part) = {part.rows.size(), 1, b + 1 == of_rank, i + 1 == parts.size()};
    part.compares_block = whole && ranks > options.world_size;
  }
  return parts;
}

}  // namespace

BatchMaker<models::PackedBatch> text_batches(const Datasets& datasets,
                                             const models::Tokenizer& tokenizer,
                                             const LoaderOptions& options) {
  const auto texts = std::make_shared<std::vector<TextRows>>();
  for (const auto& dataset : datasets) texts->emplace_back(*dataset, tokenizer, options);
  BatchMaker<models::PackedBatch> maker;
  maker.deal = [texts](const BatchRows& step, const LoaderOptions& now) {
    std::vector<std::int64_t> tokens(step.rows.size());
    if (now.accumulation * now.dealt_ranks() * now.devices > 1)
      for (std::size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = (*texts)[step.dataset].tokens(step.rows[i]);
    const bool whole = step.dataset < now.whole_steps.size() && now.whole_steps[step.dataset];
    return deal_step(tokens, whole, now);
  };
  const auto make_one = [texts](const BatchRows& step, const StepPart& part,
                                const LoaderOptions& now) {
    models::PackedBatch batch = (*texts)[step.dataset].pack(step.rows, part.rows);
    batch.dataset = step.dataset;
    batch.ranks = static_cast<std::int64_t>(now.dealt_ranks());
    batch.of_group = part.of_group;
    batch.forward_rows = part.forward_rows;
    batch.device_rows = part.device_rows;
    return batch;
  };
  maker.make = [make_one, block = std::shared_ptr<models::BatchBlock>()](
                   const BatchRows& step, const std::vector<StepPart>& parts, std::size_t i,
                   const LoaderOptions& now) mutable {
    if (!parts[i].compares_block) return make_one(step, parts[i], now);
    if (i == 0) {
      block = std::make_shared<models::BatchBlock>();
      for (const StepPart& part : parts) block->batches.push_back(make_one(step, part, now));
    }
    models::PackedBatch batch = block->batches[i];
    batch.block = block;
    batch.place_in_block = i;
    return batch;
  };
  return maker;
}

Collate<models::PackedBatch> collate_texts(std::shared_ptr<const TextDataset> dataset,
                                           const models::Tokenizer& tokenizer,
                                           const LoaderOptions& options) {
  const auto texts =
      std::make_shared<TextRows>(*dataset, tokenizer, with_limit(options, tokenizer));
  return [dataset, texts](const Rows& rows) {
    std::vector<std::size_t> all(rows.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    models::PackedBatch batch = texts->pack(rows, all);
    batch.ranks = 1;
    return batch;
  };
}

Datasets read_datasets(const std::filesystem::path& file) {
  return {std::make_shared<TextDataset>(read_dataset(file))};
}

}  // namespace ringlet::train
