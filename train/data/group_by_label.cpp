#include "ringlet/train/data/group_by_label.h"

#include <algorithm>
#include <unordered_map>

#include "ringlet/core/base/setting.h"
#include "ringlet/train/data/hash.h"
#include "ringlet/train/data/permutation.h"

namespace ringlet::train {
namespace {

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

}  // namespace

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

}  // namespace ringlet::train
