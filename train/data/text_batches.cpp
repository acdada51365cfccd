// The batches of text that a Loader gives.
#include <algorithm>
#include <array>
#include <numeric>

#include "ringlet/train/data/loader.h"
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

LoaderOptions with_limit(LoaderOptions options, const models::Tokenizer& tokenizer) {
  const std::int64_t limit = tokenizer.max_length();
  if (options.max_length == 0 || (limit != 0 && limit < options.max_length))
    options.max_length = limit;
  return options;
}

namespace {

/// The rows of a data set, packed: tokenised at the first use, then kept, four bytes a token. For
/// one thread at a time.
class TextRows {
 public:
  TextRows(const TextDataset& data, models::Tokenizer tokenizer, const LoaderOptions& options)
      : data_(data),
        tokenizer_(std::move(tokenizer)),
        pad_id_(std::max<std::int32_t>(0, tokenizer_.special().pad)),
        padded_(options.padded),
        places_(data.size()) {
    if (options.max_length > 0) tokenizer_.set_max_length(options.max_length);
    for (const std::string& column : data.columns()) {
      auto found = options.prompts.find(column);
      if (found == options.prompts.end()) found = options.prompts.find("");
      prompts_.push_back(found == options.prompts.end() ? "" : found->second);
    }
  }

  std::int64_t tokens(std::size_t row) { return cached(row).tokens; }

  /// Those at `mine` of the rows of a global batch.
  models::PackedBatch pack(std::span<const std::size_t> global,
                           const std::vector<std::size_t>& mine) {
    models::BatchBuilder builder(static_cast<std::int64_t>(data_.columns().size()));
    for (const std::size_t at : mine) {
      const std::size_t row = global[at];
      builder.add_row(cached(row).spans(), static_cast<std::int64_t>(at));
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
  struct Row {
    std::array<std::span<const std::int32_t>, kMaxColumns> columns;
    std::size_t count = 0;
    std::int64_t tokens = 0;
    std::span<const std::span<const std::int32_t>> spans() const { return {columns.data(), count}; }
  };

  /// Valid until the next call.
  Row cached(std::size_t index) {
    std::size_t& place = places_.at(index);
    if (place == 0) place = tokenize(index) + 1;
    Row row;
    row.count = data_.columns().size();
    std::size_t at = place - 1 + row.count;
    for (std::size_t c = 0; c < row.count; ++c) {
      const auto length = static_cast<std::size_t>(records_[place - 1 + c]);
      row.columns[c] = std::span(records_).subspan(at, length);
      row.tokens += static_cast<std::int64_t>(length);
      at += length;
    }
    return row;
  }

  /// Appends the row's record and returns where it begins.
  std::size_t tokenize(std::size_t index) {
    const std::size_t record = records_.size();
    const RowTexts texts = data_.texts(index);
    records_.resize(record + texts.size());
    for (std::size_t c = 0; c < texts.size(); ++c) {
      const std::size_t before = records_.size();
      tokenizer_.append(prompts_[c].empty() ? texts[c] : prompts_[c] + std::string(texts[c]),
                        records_);
      records_[record + c] = static_cast<std::int32_t>(records_.size() - before);
    }
    return record;
  }

  /// The labels of a batch without rows.
  Tensor no_labels() const {
    if (data_.target() == Target::embedding)
      return empty({0, data_.embeddings().size(1)}, DType::f32, Device{});
    return empty({0}, data_.target() == Target::label ? DType::i64 : DType::f32, Device{});
  }

  const TextDataset& data_;
  models::Tokenizer tokenizer_;
  std::int32_t pad_id_;
  bool padded_;
  std::vector<std::string> prompts_;   // of each column
  std::vector<std::size_t> places_;    // per row: where its record begins, + 1; 0 without one
  std::vector<std::int32_t> records_;  // each is the length of each column, then their ids
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
      for (const StepPart& part : parts)
        if (part.counts) block->batches.push_back(make_one(step, part, now));
    }
    const std::size_t padding = parts.size() - block->batches.size();
    const std::size_t place = parts[i].counts ? i - padding : i;
    models::PackedBatch batch = block->batches[place];
    batch.block = block;
    batch.place_in_block = place;
    batch.forward_in_block = i;
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
