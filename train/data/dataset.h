// Rows of text held in memory: what readers make, samplers count and batches are cut from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringlet::train {

/// What a row carries beside its texts.
enum class Target {
  none,
  label,  ///< a class, 0, 1, 2, …
  score,  ///< a similarity, usually in [0, 1]
};

inline constexpr std::size_t kMaxColumns = 3;

/// The texts of one row, in column order; views into the data set.
struct RowTexts {
  std::array<std::string_view, kMaxColumns> columns;
  std::size_t count = 0;

  std::size_t size() const { return count; }
  std::string_view operator[](std::size_t column) const { return columns[column]; }
  const std::string_view* begin() const { return columns.data(); }
  const std::string_view* end() const { return columns.data() + count; }
};

/// A table of 1 to 3 text columns and a label, a score or neither. All text lies in one buffer, so
/// a million pairs cost their bytes and 20 bytes a row. Wrong row numbers and asking for a label
/// where there are scores (or the reverse) are Error.
class TextDataset {
 public:
  TextDataset(std::string name, std::vector<std::string> columns, Target target);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& columns() const { return columns_; }
  Target target() const { return target_; }
  std::size_t size() const { return rows_; }

  /// Views live until the next add_row or the end of this object.
  RowTexts texts(std::size_t row) const;
  int label(std::size_t row) const;
  float score(std::size_t row) const;
  /// Largest label + 1; 0 without labels.
  int num_labels() const { return num_labels_; }

  /// `target` is the label or the score; ignored where the target is `none`.
  void add_row(std::span<const std::string_view> texts, double target = 0);
  /// Gives back memory that growing left over.
  void shrink_to_fit();

  /// Rows of the source that had no gold label and are not here.
  std::size_t skipped() const { return skipped_; }
  void count_skipped() { ++skipped_; }

 private:
  std::string name_;
  std::vector<std::string> columns_;
  Target target_;
  std::size_t rows_ = 0;
  std::size_t skipped_ = 0;
  int num_labels_ = 0;
  std::string text_;
  std::vector<std::uint64_t> ends_;  // (rows, columns): where each text ends in text_
  std::vector<std::int32_t> labels_;
  std::vector<float> scores_;
};

using Datasets = std::vector<std::shared_ptr<const TextDataset>>;

/// Names for metrics: each file's without folder and ending. A name that an earlier data set has
/// taken gets a number, "train-2".
std::vector<std::string> short_names(const Datasets& datasets);

}  // namespace ringlet::train
