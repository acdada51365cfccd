// Loaders: batches of data, and iteration over them.
//
// Packed batches of text, made ahead on a separate thread:
//   for (const models::PackedBatch& batch : Loader("snli.jsonl", tokenizer, {.batch_size = 32}))
//     loss(batch).backward();
// Batches of numbered examples, made by a collate function:
//   const auto collate = [&](const Rows& rows) { return collate_digits(digits, rows); };
//   Loader loader(digits.count, collate, {.batch_size = 64}, world);
//   for (const DigitBatch& batch : loader) loader.weigh(loss(batch)).backward();
#pragma once

#include <chrono>
#include <concepts>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/core/threads/thread.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/train/data/bounded_queue.h"
#include "ringlet/train/data/step_loader.h"

namespace ringlet::train {

/// Batches of text that a thread makes ahead of the one in use.
inline constexpr std::size_t kAhead = 3;

/// A rank's batch of a step.
struct StepPart : BatchShare {
  std::vector<std::size_t> rows = {};          // positions in the step
  std::vector<std::int64_t> device_rows = {};  // text: how many of them each device has
  std::int64_t forward_rows = 0;               // text: rows of one forward; 0: all
  bool of_group = false;                       // the ranks are a group's
  bool compares_block = false;                 // text: with those of the rank's other parts
};

/// How a step's rows become a rank's batches.
template <class Batch>
struct BatchMaker {
  /// Divides the rows among all ranks' batches. Returns this rank's.
  std::function<std::vector<StepPart>(const BatchRows& step, const LoaderOptions& options)> deal;
  /// The batch of parts[i]; those of a step are made in order.
  std::function<Batch(const BatchRows& step, const std::vector<StepPart>& parts, std::size_t i,
                      const LoaderOptions& options)>
      make;
};

/// Numbers of examples; a span, so a collate function may take it as one.
struct Rows : std::span<const std::size_t> {
  Rows(std::span<const std::size_t> rows, std::size_t first = 0)
      : std::span<const std::size_t>(rows), first(first) {}
  std::size_t first;  // position of the first in the step: keys dropout masks
};

template <class Batch>
using Collate = std::function<Batch(const Rows& rows)>;

/// Deals blocks of batch_size rows to the ranks alternately. Every rank has equally many: one
/// without rows has the first row of its round, which does not count.
std::vector<StepPart> deal_blocks(const BatchRows& step, const LoaderOptions& options);

/// Puts the parts of the first logical rank in front once more if other ranks have one more
/// (LoaderOptions::equal_batches). These do not count.
void pad_block(std::vector<StepPart>& parts, const LoaderOptions& options);

/// Divides all rows of a global batch among `parts`: near-equal in tokens, at most ceil(rows /
/// parts) each, in ascending order. A pure function of its arguments.
std::vector<std::vector<std::size_t>> deal_rows(const std::vector<std::int64_t>& tokens,
                                                std::size_t parts);
/// `options` with the limit of tokens that their texts have.
LoaderOptions with_limit(LoaderOptions options, const models::Tokenizer& tokenizer);
/// Batches of text. Rows are dealt by deal_rows().
BatchMaker<models::PackedBatch> text_batches(const Datasets& datasets,
                                             const models::Tokenizer& tokenizer,
                                             const LoaderOptions& options);
/// Packs rows of a data set in the given order, each batch alone, for evaluations.
Collate<models::PackedBatch> collate_texts(std::shared_ptr<const TextDataset> dataset,
                                           const models::Tokenizer& tokenizer,
                                           const LoaderOptions& options);
/// One file, as read_dataset reads it.
Datasets read_datasets(const std::filesystem::path& file);

/// Each rank makes only its batches. Their weighed losses add up to the mean over the step's rows,
/// also in an epoch's last step, whatever rows are left for each rank. A rank without rows has an
/// empty batch of text, or a batch of one example that does not count.
template <class BatchType>
class Loader final : public StepLoader {
 public:
  using Batch = BatchType;

  /// Text, made a few batches ahead, also across the end of an epoch. A group of several ranks
  /// replaces the options' rank and world_size; a group of one leaves them. Losses refuse the
  /// batches of a group unless a strategy sums their gradients.
  Loader(Datasets datasets, const models::Tokenizer& tokenizer, LoaderOptions options = {},
         const comm::Group& group = {}) requires std::same_as<Batch, models::PackedBatch>
      : StepLoader(datasets, std::nullopt, with_limit(options, tokenizer), group),
        maker_(text_batches(datasets, tokenizer, this->options())),
        ahead_(kAhead) {}
  Loader(const std::filesystem::path& file, const models::Tokenizer& tokenizer,
         LoaderOptions options = {},
         const comm::Group& group = {}) requires std::same_as<Batch, models::PackedBatch>
      : Loader(read_datasets(file), tokenizer, std::move(options), group) {}
  /// Numbered examples. Batches are made by the thread that calls next(), unless `ahead` is more
  /// than 0.
  Loader(std::size_t examples, Collate<Batch> collate, LoaderOptions options = {},
         const comm::Group& group = {}, std::size_t ahead = 0)
      : Loader(examples,
               BatchMaker<Batch>{deal_blocks,
                                 [collate = std::move(collate)](const BatchRows& step,
                                                                const std::vector<StepPart>& parts,
                                                                std::size_t i, const auto&) {
                                   std::vector<std::size_t> rows;
                                   for (const std::size_t at : parts[i].rows)
                                     rows.push_back(step.rows[at]);
                                   return collate(Rows(rows, parts[i].rows.front()));
                                 }},
               std::move(options), group, ahead) {}
  ~Loader() override { restart(); }

  /// The next batch, or null at the end of an epoch (once). It is valid until the next call.
  /// Rethrows the errors of making it; the next call begins that step again.
  const Batch* next() {
    const auto start = std::chrono::steady_clock::now();
    Item item = next_item();
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    position_ = item.after;
    *share_ = item.share;
    batch_ = std::move(item.batch);
    return batch_ ? &*batch_ : nullptr;
  }

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    explicit Iterator(Loader& loader) : loader_(&loader), batch_(loader.next()) {}
    const Batch& operator*() const { return *batch_; }
    const Batch* operator->() const { return batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return batch_ == nullptr; }

   private:
    Loader* loader_;
    const Batch* batch_;
  };
  /// Iterates from position() to the end of that epoch. After the last batch the position is the
  /// next epoch's start, so that another loop continues from there, in another order.
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Item {
    std::optional<Batch> batch;  // none: an epoch has ended
    BatchShare share;
    Position after;                 // position once this has been taken
    std::exception_ptr error = {};  // of making it
  };

  Loader(std::size_t examples, BatchMaker<Batch> maker, LoaderOptions options,
         const comm::Group& group, std::size_t ahead)
      : StepLoader({}, examples, std::move(options), group),
        maker_(std::move(maker)),
        ahead_(ahead) {}

  void restart() override {
    if (thread_.joinable()) {
      queue_->cancel();
      thread_.join();
    }
    parts_.clear();
    made_ = 0;
    epoch_ended_ = started_ = false;
  }

  Item next_item() {
    try {
      return ahead_ > 0 ? take() : make();
    } catch (...) {
      restart();  // the same batch is next
      throw;
    }
  }

  Item take() {
    if (!thread_.joinable()) {
      queue_ = std::make_unique<BoundedQueue<Item>>(ahead_);
      thread_ = start_thread([this] { produce(); });
    }
    Item item = queue_->pop();
    if (item.error) std::rethrow_exception(item.error);
    return item;
  }

  // Continues from epoch to epoch until the consumer cancels.
  void produce() {
    try {
      while (queue_->push(make())) {
      }
    } catch (...) {
      queue_->push({{}, {}, {}, std::current_exception()});
    }
  }

  // On the thread, if there is one.
  Item make() {
    if (!std::exchange(started_, true)) making_ = position_;
    if (made_ == parts_.size()) {
      if (std::exchange(epoch_ended_, false)) return {std::nullopt, {}, making_};
      const std::size_t steps = steps_per_epoch(making_.epoch);
      RINGLET_CHECK(making_.step < steps, "[Loader] epoch ", making_.epoch, " has ", steps,
                    " steps, not a step ", making_.step);
      step_ = sampler().batch(making_.epoch, making_.step);
      parts_ = maker_.deal(step_, options());
      pad_block(parts_, options());
      for (StepPart& part : parts_) part.of_group = of_group_;
      made_ = 0;
    }
    const std::size_t mine = made_++;
    if (made_ == parts_.size() && ++making_.step == steps_per_epoch(making_.epoch)) {
      making_ = {making_.epoch + 1, 0};
      epoch_ended_ = true;
    }
    return {maker_.make(step_, parts_, mine, options()), parts_[mine], making_};
  }

  BatchMaker<Batch> maker_;
  std::size_t ahead_;
  std::optional<Batch> batch_;
  std::unique_ptr<BoundedQueue<Item>> queue_;
  std::thread thread_;
  // ---- of the side that makes batches ----
  bool started_ = false;
  Position making_;              // of the next one
  BatchRows step_;               // that was begun last
  std::vector<StepPart> parts_;  // this rank's of it
  std::size_t made_ = 0;         // of those
  bool epoch_ended_ = false;
};

Loader(Datasets, const models::Tokenizer&, LoaderOptions = {}, const comm::Group& = {})
    ->Loader<models::PackedBatch>;
Loader(const std::filesystem::path&, const models::Tokenizer&, LoaderOptions = {},
       const comm::Group& = {})
    ->Loader<models::PackedBatch>;
template <class Collate>
Loader(std::size_t, Collate, LoaderOptions = {}, const comm::Group& = {}, std::size_t = 0)
    -> Loader<std::invoke_result_t<Collate, const Rows&>>;

}  // namespace ringlet::train
