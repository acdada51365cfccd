// The rows that `ringlet mine` writes, in the formats of Sentence Transformers'
// mine_hard_negatives, and their summary.
#pragma once

#include <filesystem>

#include "ringlet/core/base/names.h"
#include "ringlet/core/io/json.h"
#include "ringlet/train/data/row_writer.h"
#include "ringlet/train/evaluators/search/hard_negatives.h"

namespace ringlet::cli {

/// triplet: a row for each positive and negative of an anchor. n_tuple: a row for each positive,
/// with all negatives; anchors with fewer are left out. labeled_pair: a row for each of them.
enum class OutputFormat { triplet, n_tuple, labeled_pair };
inline constexpr Names<OutputFormat, 3> kOutputFormats{"output format",
                                                       {"triplet", "n-tuple", "labeled-pair"}};

struct MinedFormat {
  OutputFormat format = OutputFormat::triplet;
  bool scores = false;  // a last column with the similarities; in pairs it replaces the label
};

/// InputError for more columns than `ringlet train` reads.
void check_format(const MinedFormat& format, std::int64_t num_negatives);
/// InputError for scores of pairs that are distances: `ringlet train` takes scores as cosines.
void check_scores(const MinedFormat& format, train::Similarity similarity);

class MinedRows {
 public:
  /// `texts` must outlive it.
  MinedRows(const std::filesystem::path& file, const MinedFormat& format,
            std::int64_t num_negatives, const train::MiningTexts& texts);

  void write(std::size_t anchor, const train::MinedAnchor& found);
  void commit() { rows_.commit(); }
  std::int64_t written() const { return written_; }

 private:
  const std::string& document(std::int64_t row) const;
  void add(const Json& row);
  void write_row(std::size_t anchor, std::size_t positive, const train::MinedAnchor& found,
                 std::span<const train::Hit> negatives);
  void write_pairs(std::size_t anchor, const train::MinedAnchor& found);

  MinedFormat format_;
  std::int64_t num_negatives_;
  const train::MiningTexts& texts_;
  train::RowWriter rows_;
  std::int64_t written_ = 0;
};

/// Prints the scores, the candidates that options left out, and the anchors with fewer negatives
/// than `num_negatives` or with their own text among them.
void print_mined(const std::vector<train::MinedAnchor>& found, const train::MiningTexts& texts,
                 const train::SkippedCandidates& skipped, std::int64_t num_negatives);

}  // namespace ringlet::cli
