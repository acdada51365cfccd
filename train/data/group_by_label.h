// Batches of several labels with at least two rows each, for losses that look for triplets in them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ringlet/train/data/dataset.h"

namespace ringlet::train {

/// InputError unless the batch is even and at least four rows, and two labels have two rows each.
void check_labels(const TextDataset& dataset, std::size_t batch_size);

/// Cuts a stream of rows into batches; a last one of fewer than four rows is dropped. In each round
/// the labels give two rows each to the stream, in an order that `key` shuffles; without one, of
/// their first rows. It ends when fewer than two labels have two rows left. Rows of a label are
/// taken in their order in `order`.
std::vector<std::vector<std::size_t>> group_by_label(const TextDataset& dataset,
                                                     const std::vector<std::size_t>& order,
                                                     std::size_t batch_size,
                                                     std::optional<std::uint64_t> key);

}  // namespace ringlet::train
