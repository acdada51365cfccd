// One view of CSV, TSV and JSON lines: rows with named fields.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/train/data/lines.h"
#include "ringlet/train/data/read_options.h"

namespace ringlet::train {

/// Parses "premise=sentence1,hypothesis=sentence2". Anything else is InputError.
Renames parse_renames(std::string_view text);

/// A column's name in the file and after renaming; the latter is empty if another one takes it.
struct Field {
  std::string in_file, name;
};

/// A file of named fields. The first row can be inspected before the first next().
class RowReader {
 public:
  virtual ~RowReader() = default;

  /// Renames of columns that the file lacks (its header, or its first object); they have no effect.
  const Renames& missing_renames() const { return missing_renames_; }
  /// The CSV header, or the keys of the JSON objects so far, in the order of their appearance.
  const std::vector<Field>& fields() const { return fields_; }
  /// Their names after renaming.
  std::vector<std::string> columns() const;
  /// "sentence1, label", for messages.
  std::string shown_columns() const;
  /// The columns of `used`, given after renaming, and the others.
  FileReport report(const std::vector<std::string>& used) const;
  /// Steps to the next row, at first to the first one; false at the end. InputError for two columns
  /// of one name.
  virtual bool next() = 0;
  /// The current row's field; nullopt if the file has no such column or the field is a JSON null.
  virtual std::optional<std::string_view> find(std::string_view column) const = 0;
  /// The field; InputError if there is none or it is not UTF-8. Texts stay as they are: a prompt
  /// may come before them.
  std::string_view whole_text(const std::string& column) const;
  /// The same without white space at both ends: an id, a label or a number.
  std::string_view text(const std::string& column) const;
  /// For tables with rows longer or shorter than the header (SNLI, MultiNLI).
  virtual void allow_ragged_rows() {}
  /// Declares that the first row is data, and names the fields. JSON lines have no header.
  virtual void set_header(std::vector<std::string> names) = 0;

  virtual const std::string& name() const = 0;
  virtual std::size_t line() const = 0;

  /// Throws InputError "NAME:LINE: …".
  template <class... Args>
  [[noreturn]] void fail_here(const Args&... args) const {
    fail_input(name(), ":", line(), ": ", args...);
  }

 protected:
  void check_distinct() const;

  Renames missing_renames_;
  std::vector<Field> fields_;
};

/// Whether `name` is among the columns.
bool has_column(const std::vector<std::string>& columns, std::string_view name);

/// Opens a file of JSON lines if the first one begins with "{"; of tab separated values if its name
/// ends in .tsv, or if the first line has more tabs than commas; else of CSV. An empty file
/// and a JSON array are InputError.
std::unique_ptr<RowReader> open_rows(LineReader lines, const Renames& renames);

struct JsonMember {
  enum class Kind { text, null, other };
  std::string key;
  std::string text;  // the string, true, false, or the number as written (integers in decimal)
  Kind kind = Kind::null;
};

/// The members of the line's object, in its order, without those inside of them. `complaint` says
/// why the line has no object; unchanged otherwise.
std::vector<JsonMember> json_members(std::string_view line, std::string& complaint);

/// The name of the column that a SplitFilter reads.
inline constexpr const char* kSplitColumn = "split";

/// Chooses the rows of a split by the column `split`. Without such a column it takes every row;
/// with one, a choice is needed.
class SplitFilter {
 public:
  /// InputError for a choice in a file without the column, unless it is shared.
  SplitFilter(std::string file, bool has_column, const SplitChoice& choice);

  bool has_column() const { return has_column_; }
  /// Whether to use the row with this value of the column; the row is counted.
  bool takes(std::optional<std::string_view> split);
  /// After the last row: what was chosen and left out. InputError that names the splits and their
  /// rows if there is none of the chosen split, or nothing was chosen.
  void finish(FileReport& report) const;

 private:
  std::string file_, wanted_;
  bool has_column_;
  std::map<std::string, std::size_t, std::less<>> rows_;  // of each split
};

}  // namespace ringlet::train
