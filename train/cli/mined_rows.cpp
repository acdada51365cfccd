#include "ringlet/train/cli/mined_rows.h"
#include "ringlet/core/io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ringlet::cli {
namespace {

using train::MinedAnchor;

/// Columns that `ringlet train` reads.
std::vector<std::string> columns_of(const MinedFormat& format, std::int64_t num_negatives) {
  if (format.format == OutputFormat::labeled_pair)
    return {"sentence1", "sentence2", format.scores ? "score" : "label"};
  std::vector<std::string> columns{"anchor", "positive"};
  if (format.format == OutputFormat::triplet) columns.emplace_back("negative");
  if (format.format == OutputFormat::n_tuple)
    for (std::int64_t i = 1; i <= num_negatives; ++i) columns.push_back(str("negative_", i));
  if (format.scores) columns.emplace_back("scores");
  return columns;
}

void print_scores(const char* name, std::vector<float> scores) {
  if (scores.empty()) return;
  std::ranges::sort(scores);
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  fmt::print("{:<10} {:>12} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f}\n", name,
             fmt::group_digits(std::ssize(scores)), sum / static_cast<double>(scores.size()),
             scores.front(), scores[scores.size() / 2], scores.back());
}

}  // namespace

void check_format(const MinedFormat& format, std::int64_t num_negatives) {
  constexpr auto kMost = static_cast<std::int64_t>(train::kMaxColumns) - 2;
  if (format.format == OutputFormat::n_tuple && num_negatives > kMost)
    fail_input("--output-format n-tuple: expected --num-negatives of at most ", kMost, ", found ",
               num_negatives);
}

void check_scores(const MinedFormat& format, train::Similarity similarity) {
  if (format.format == OutputFormat::labeled_pair && format.scores && !is_product(similarity))
    fail_input("--output-scores: expected the similarity cosine or dot with labeled-pair, found ",
               train::kSimilarities(similarity));
}

MinedRows::MinedRows(const std::filesystem::path& file, const MinedFormat& format,
                     std::int64_t num_negatives, const train::MiningTexts& texts)
    : format_(format),
      num_negatives_(num_negatives),
      texts_(texts),
      rows_(file, columns_of(format, num_negatives)) {}

void MinedRows::write(std::size_t anchor, const MinedAnchor& found) {
  if (format_.format == OutputFormat::labeled_pair) return write_pairs(anchor, found);
  for (std::size_t i = 0; i < found.positive_scores.size(); ++i) {
    if (format_.format == OutputFormat::triplet)
      for (const train::Hit& hit : found.negatives) write_row(anchor, i, found, std::span(&hit, 1));
    else if (std::ssize(found.negatives) == num_negatives_)
      write_row(anchor, i, found, found.negatives);
  }
}

const std::string& MinedRows::document(std::int64_t row) const {
  return texts_.corpus[static_cast<std::size_t>(row)];
}

void MinedRows::add(const Json& row) {
  rows_.write(row);
  ++written_;
}

void MinedRows::write_row(std::size_t anchor, std::size_t positive, const MinedAnchor& found,
                          std::span<const train::Hit> negatives) {
  auto row = Json::array({texts_.anchors[anchor], document(texts_.positives[anchor][positive])});
  auto scores = Json::array({found.positive_scores[positive]});
  for (const train::Hit& hit : negatives) {
    row.push_back(document(hit.row));
    scores.push_back(hit.score);
  }
  if (format_.scores) row.push_back(scores);
  add(row);
}

void MinedRows::write_pairs(std::size_t anchor, const MinedAnchor& found) {
  const auto pair = [&](std::int64_t row, int label, float score) {
    const Json target = format_.scores ? Json(score) : Json(label);
    add(Json::array({texts_.anchors[anchor], document(row), target}));
  };
  for (std::size_t i = 0; i < found.positive_scores.size(); ++i)
    pair(texts_.positives[anchor][i], 1, found.positive_scores[i]);
  for (const train::Hit& hit : found.negatives) pair(hit.row, 0, hit.score);
}

void print_mined(const std::vector<MinedAnchor>& found, const train::MiningTexts& texts,
                 const train::SkippedCandidates& skipped, std::int64_t num_negatives) {
  std::vector<float> positives, negatives;
  std::int64_t incomplete = 0, own = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const MinedAnchor& anchor = found[i];
    positives.insert(positives.end(), anchor.positive_scores.begin(), anchor.positive_scores.end());
    for (const train::Hit& hit : anchor.negatives) negatives.push_back(hit.score);
    if (std::ssize(anchor.negatives) < num_negatives) ++incomplete;
    own += std::ranges::any_of(anchor.negatives, [&](const train::Hit& hit) {
      return texts.corpus[static_cast<std::size_t>(hit.row)] == texts.anchors[i];
    });
  }
  fmt::print("{:<10} {:>12} {:>9} {:>9} {:>9} {:>9}\n", "score", "count", "mean", "min", "median",
             "max");
  print_scores("positives", std::move(positives));
  print_scores("negatives", std::move(negatives));
  const auto print_skipped = [](std::int64_t count, const char* option) {
    if (count > 0) fmt::print("{} candidates left out by --{}\n", fmt::group_digits(count), option);
  };
  print_skipped(skipped.absolute_margin, "absolute-margin");
  print_skipped(skipped.relative_margin, "relative-margin");
  print_skipped(skipped.max_score, "max-score");
  print_skipped(skipped.min_score, "min-score");
  if (incomplete > 0)
    fmt::print("{} of {} anchors have fewer than {} negatives\n", fmt::group_digits(incomplete),
               fmt::group_digits(std::ssize(found)), num_negatives);
  if (own > 0)
    fmt::print("{} of {} anchors have their own text as a negative\n", fmt::group_digits(own),
               fmt::group_digits(std::ssize(found)));
}

}  // namespace ringlet::cli
