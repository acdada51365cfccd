// Batches with real lengths: bench/data/snli_lengths.json, the same for all compared programs.
#pragma once

#include <filesystem>
#include <utility>
#include <vector>

#include "ringlet/models/batch.h"

namespace ringlet::bench {

class Lengths {
 public:
  explicit Lengths(const std::filesystem::path& histogram);
  /// All sentences have this length.
  explicit Lengths(std::int64_t tokens)
      : pairs_{{tokens, tokens}}, mean_(2.0 * static_cast<double>(tokens)) {}

  double mean_tokens_per_pair() const { return mean_; }

  /// Pairs of random token ids below `vocabulary` with random labels 0 to 2. Pair k = step * rows +
  /// row has the lengths at splitmix64(k) mod n of the histogram's n pairs, as in
  /// bench/peers/lengths.py; `max_length` truncates them. Only the rows that a Loader assigns to
  /// `part` of `parts` ranks.
  models::PackedBatch batch(std::int64_t step, std::int64_t rows, std::int64_t vocabulary,
                            std::int64_t max_length, bool padded, std::size_t part = 0,
                            std::size_t parts = 1) const;

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs_;  // premise, hypothesis
  double mean_ = 0;
};

}  // namespace ringlet::bench
