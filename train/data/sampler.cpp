#include "ringlet/train/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "ringlet/core/base/setting.h"
#include "ringlet/train/data/draws.h"

namespace ringlet::train {
namespace {

// The order of the data sets under `proportional` has a separate stream.
constexpr std::size_t kDealingStream = ~std::size_t{0};
// So has the order of the labels in their turns.
constexpr std::size_t kTurnStream = ~std::size_t{0} - 1;

using RowNumbers = std::vector<std::size_t>;

/// The rows of each label that has two, labels by their first rows.
std::vector<RowNumbers> rows_by_label(const TextDataset& dataset, const RowNumbers& order) {
  std::unordered_map<std::int64_t, std::size_t> places;
  std::vector<RowNumbers> groups;
  for (const std::size_t row : order) {
    const auto [place, is_new] = places.try_emplace(dataset.label(row), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(row);
  }
  std::erase_if(groups, [](const RowNumbers& rows) { return rows.size() < 2; });
  return groups;
}

/// InputError unless the batch is even and at least four rows, and two labels have two rows each.
void check_labels(const TextDataset& dataset, std::size_t batch_size) {
  if (batch_size < 4 || batch_size % 2 != 0)
    fail_setting("batch_sampler",
                 " group_by_label: expected a batch of 4 rows or more, an even number, "
                 "found ",
                 batch_size);
  if (dataset.target() != Target::label)
    fail_input(dataset.name(), ": batch sampler group_by_label: expected a column of labels");
  RowNumbers order(dataset.size());
  for (std::size_t row = 0; row < order.size(); ++row) order[row] = row;
  if (const std::size_t labels = rows_by_label(dataset, order).size(); labels < 2)
    fail_input(dataset.name(),
               ": batch sampler group_by_label: expected two labels with two rows each, found ",
               labels);
}

/// Cuts a stream of rows into batches; a last one of fewer than four rows is dropped. In each round
/// the labels give two rows each to the stream, in an order that `key` shuffles; without one, of
/// their first rows. It ends when fewer than two labels have two rows left. Rows of a label are
/// taken in their order in `order`.
std::vector<RowNumbers> group_by_label(const TextDataset& dataset, const RowNumbers& order,
                                       std::size_t batch_size, std::optional<std::uint64_t> key) {
  std::vector<RowNumbers> groups = rows_by_label(dataset, order);
  std::vector<RowNumbers> batches(1);
  std::vector<std::size_t> taken(groups.size());
  RowNumbers labels(groups.size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i;
  const std::size_t none = groups.size();
  std::size_t last = none;
  for (std::uint64_t round = 0; labels.size() >= 2; ++round) {
    if (key) {
      const Permutation shuffled(labels.size(), mix64(*key, round, 0));
      RowNumbers turn;
      for (std::size_t i = 0; i < labels.size(); ++i) turn.push_back(labels[shuffled(i)]);
      labels = std::move(turn);
    }
    // Four rows of one label in succession could be the whole end of a batch.
    const bool goes_on = !batches.back().empty() && batches.back().size() < batch_size;
    if (goes_on && labels[0] == last) std::swap(labels[0], labels[1]);
    for (const std::size_t label : labels)
      for (int i = 0; i < 2; ++i) {
        if (batches.back().size() == batch_size) batches.emplace_back();
        batches.back().push_back(groups[label][taken[label]++]);
      }
    last = labels.back();
    std::erase_if(labels,
                  [&](std::size_t label) { return groups[label].size() < taken[label] + 2; });
  }
  if (batches.back().size() < 4) batches.pop_back();
  return batches;
}

}  // namespace

struct Sampler::Plans {
  std::size_t epoch;
  std::vector<std::vector<std::vector<std::size_t>>> batches;  // per data set, batch: rows
};

Sampler::Sampler(std::vector<const TextDataset*> datasets, SamplerOptions options)
    : datasets_(std::move(datasets)), options_(options) {
  if (datasets_.empty()) fail_input("sampler: expected at least one data set");
  if (options_.batch_size == 0) fail_setting("batch_size", ": expected at least 1, found 0");
  for (const TextDataset* dataset : datasets_) {
    if (dataset->size() == 0) fail_input(dataset->name(), ": empty: expected at least one row");
    if (dataset->size() < options_.batch_size) {
      fail_setting("batch_size", ": expected at most the ", dataset->size(), " rows of ",
                   dataset->name(), ", found ", options_.batch_size);
    }
    sizes_.push_back(dataset->size());
    if (options_.batch_sampler == BatchSampler::group_by_label)
      check_labels(*dataset, options_.batch_size);
  }
}

Sampler::Sampler(std::size_t examples, SamplerOptions options)
    : sizes_{examples}, options_(options) {
  if (examples == 0) fail_input("examples: expected at least one, found none");
  if (options_.batch_size == 0) fail_setting("batch_size", ": expected at least 1, found 0");
  options_.dealing = Dealing::round_robin;
}

Sampler::~Sampler() = default;

std::uint64_t Sampler::key(std::size_t epoch, std::size_t stream) const {
  return mix64(options_.seed, epoch, stream);
}

std::vector<std::size_t> Sampler::rows_in_order(std::size_t epoch, std::size_t dataset,
                                                std::size_t begin, std::size_t end) const {
  const Permutation shuffled(sizes_[dataset],
                             datasets_.empty() ? mix64(options_.seed, epoch) : key(epoch, dataset));
  std::vector<std::size_t> rows;
  rows.reserve(end - begin);
  for (std::size_t position = begin; position < end; ++position)
    rows.push_back(options_.shuffle ? shuffled(position) : position);
  return rows;
}

std::vector<std::vector<std::size_t>> Sampler::plan(std::size_t epoch, std::size_t dataset) const {
  const TextDataset& data = *datasets_[dataset];
  const std::vector<std::size_t> order = rows_in_order(epoch, dataset, 0, data.size());
  if (options_.batch_sampler == BatchSampler::no_duplicates) return without_duplicates(data, order);
  const std::uint64_t turns = mix64(key(epoch, dataset), kTurnStream, 0);
  return group_by_label(data, order, options_.batch_size,
                        options_.shuffle ? std::optional(turns) : std::nullopt);
}

std::vector<std::vector<std::size_t>> Sampler::without_duplicates(
    const TextDataset& data, const std::vector<std::size_t>& order) const {
  std::vector<RowNumbers> batches;
  std::set<std::size_t> open;  // batches with room
  // Two texts with the same hash are kept apart needlessly, which does no harm.
  std::unordered_map<std::uint64_t, std::size_t> first_allowed;
  for (const std::size_t row : order) {
    std::size_t allowed = 0;
    for (const std::string_view text : data.texts(row)) {
      const auto seen = first_allowed.find(hash_text(text));
      if (seen != first_allowed.end()) allowed = std::max(allowed, seen->second);
    }
    auto batch = open.lower_bound(allowed);
    for (; batch == open.end(); batch = open.lower_bound(allowed)) {
      open.insert(batches.size());
      batches.emplace_back();
    }
    for (const std::string_view text : data.texts(row)) first_allowed[hash_text(text)] = *batch + 1;
    batches[*batch].push_back(row);
    if (batches[*batch].size() == options_.batch_size) open.erase(batch);
  }
  return batches;
}

// The thread that makes batches may be in the next epoch before training on this one has ended. A
// plan may take a while: neither thread waits for a plan that only the other one needs.
std::shared_ptr<const Sampler::Plans> Sampler::plans(std::size_t epoch) const {
  const auto known = [&]() -> std::shared_ptr<const Plans> {
    for (const auto& one : plans_)
      if (one && one->epoch == epoch) return one;
    return nullptr;
  };
  {
    const std::lock_guard lock(mutex_);
    if (auto found = known()) return found;
  }
  auto plans = std::make_shared<Plans>();
  plans->epoch = epoch;
  for (std::size_t i = 0; i < datasets_.size(); ++i) plans->batches.push_back(plan(epoch, i));
  const std::lock_guard lock(mutex_);
  if (auto found = known()) return found;
  plans_[1] = std::exchange(plans_[0], std::move(plans));
  return plans_[0];
}

std::vector<std::size_t> Sampler::batch_counts(std::size_t epoch) const {
  std::vector<std::size_t> counts;
  if (has_plans()) {
    for (const auto& batches : plans(epoch)->batches) counts.push_back(batches.size());
  } else {
    const std::size_t size = options_.batch_size;
    for (const std::size_t rows : sizes_) counts.push_back((rows + size - 1) / size);
  }
  return counts;
}

std::size_t Sampler::steps_per_epoch(std::size_t epoch) const {
  const std::vector<std::size_t> counts = batch_counts(epoch);
  if (options_.dealing == Dealing::round_robin) {
    return *std::min_element(counts.begin(), counts.end()) * counts.size();
  }
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::vector<std::size_t> Sampler::rows_per_epoch(std::size_t epoch) const {
  std::vector<std::size_t> rows = sizes_;
  const bool deals_all = options_.dealing != Dealing::round_robin;
  if (deals_all && options_.batch_sampler != BatchSampler::group_by_label) return rows;
  const std::vector<std::size_t> counts = batch_counts(epoch);
  const std::size_t least = *std::min_element(counts.begin(), counts.end());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t turns = deals_all ? counts[i] : least;
    if (!has_plans()) {
      rows[i] = std::min(rows[i], turns * options_.batch_size);
      continue;
    }
    const auto plan = plans(epoch);
    rows[i] = 0;
    for (std::size_t turn = 0; turn < turns; ++turn) rows[i] += plan->batches[i][turn].size();
  }
  return rows;
}

Sampler::Slot Sampler::slot(std::size_t epoch, std::size_t step) const {
  const std::size_t steps = steps_per_epoch(epoch);
  RINGLET_CHECK(step < steps, "[Sampler] step ", step, " of ", steps);
  if (options_.dealing == Dealing::round_robin) {
    return {step % sizes_.size(), step / sizes_.size()};
  }
  std::size_t index =
      options_.shuffle ? Permutation(steps, key(epoch, kDealingStream))(step) : step;
  const std::vector<std::size_t> counts = batch_counts(epoch);
  std::size_t dataset = 0;
  while (index >= counts[dataset]) index -= counts[dataset++];
  return {dataset, index};
}

BatchRows Sampler::batch(std::size_t epoch, std::size_t step) const {
  const Slot at = slot(epoch, step);
  if (has_plans()) return {at.dataset, plans(epoch)->batches[at.dataset][at.index]};
  const std::size_t begin = at.index * options_.batch_size;
  const std::size_t end = std::min(begin + options_.batch_size, sizes_[at.dataset]);
  return {at.dataset, rows_in_order(epoch, at.dataset, begin, end)};
}

}  // namespace ringlet::train
