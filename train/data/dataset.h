// Rows of text in memory: readers make them, samplers count them, and batches are cut from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/core/tensor/tensor.h"
#include "ringlet/train/data/read_options.h"

namespace ringlet::train {

/// The target of a row, in addition to its texts.
enum class Target {
  none,
  label,      ///< a class, 0, 1, 2, …
  score,      ///< a similarity, usually in [0, 1]
  embedding,  ///< a vector, as of a teacher
};

inline constexpr std::size_t kMaxColumns = 16;

/// The texts of one row, in column order; views into the data set.
struct RowTexts {
  std::array<std::string_view, kMaxColumns> columns;
  std::size_t count = 0;

  std::size_t size() const { return count; }
  std::string_view operator[](std::size_t column) const { return columns[column]; }
  const std::string_view* begin() const { return columns.data(); }
  const std::string_view* end() const { return columns.data() + count; }
};

/// A table of 1 to 16 text columns and perhaps a target. All text lies in one buffer, so a million
/// pairs cost their bytes, 20 bytes a row and what their embeddings need. Error for a wrong row
/// number, or a label where there are scores (or the reverse). Embeddings are set once for all
/// rows.
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
  /// (D) of row `row` of the table.
  std::span<const float> embedding(std::size_t row) const;
  const Tensor& embeddings() const { return embeddings_; }
  /// The model that made them.
  const std::string& embeddings_from() const { return embeddings_from_; }
  /// A digest of the columns' names, the texts and the targets; of embeddings, embeddings_from().
  std::string digest() const;

  /// `target` is the label or the score; ignored if the target is `none`.
  void add_row(std::span<const std::string_view> texts, double target = 0);
  /// Gives rows without a target the rows of `table`, (rows, D) f32 on a CPU.
  void set_embeddings(Tensor table, std::string from);
  /// A copy of these rows.
  TextDataset select(std::span<const std::size_t> rows) const;
  /// Frees memory that growth has left over.
  void shrink_to_fit();

  /// The report of the file's reader; empty for rows of another origin, and those of select().
  const FileReport& report() const { return report_; }
  void set_report(FileReport report) { report_ = std::move(report); }

 private:
  std::string name_;
  std::vector<std::string> columns_;
  Target target_;
  std::size_t rows_ = 0;
  int num_labels_ = 0;
  std::string text_;
  std::vector<std::uint64_t> ends_;  // (rows, columns): where each text ends in text_
  std::vector<std::int32_t> labels_;
  std::vector<float> scores_;
  Tensor embeddings_;  // (rows, D)
  std::string embeddings_from_;
  FileReport report_;
};

/// The prompt before each text of a column; that of "" is for all other columns.
using Prompts = std::map<std::string, std::string>;

using Datasets = std::vector<std::shared_ptr<const TextDataset>>;

/// Names for metrics: each file's name without folder and ending. A name that an earlier file has
/// gets a number, "train-2".
std::vector<std::string> short_names(const std::vector<std::string>& files);
std::vector<std::string> short_names(const Datasets& datasets);

}  // namespace ringlet::train
