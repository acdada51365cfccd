// Comma and tab separated values, read record by record, and a writer of rows.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/train/data/lines.h"

namespace ringlet::train {

/// csv: RFC 4180. A field that starts with a double quote ends at the closing one and may hold
/// commas, line breaks and doubled quotes. A quote inside an unquoted field stands for itself.
/// tsv: every tab separates, as SNLI, MultiNLI and the STS benchmark need. A field is quoted if it
/// begins and ends with a double quote and every one in between is doubled, as pandas writes it;
/// other quotes stand for themselves.
enum class Delimited { csv, tsv };

/// Reads records; blank lines are skipped. An unclosed quote and text after a closing quote are
/// InputError "FILE:LINE: …".
class CsvReader {
 public:
  CsvReader(LineReader lines, Delimited dialect);

  /// Reads the next record; false at the end.
  bool next();
  /// Its fields, valid until the next call of next().
  const std::vector<std::string_view>& fields() const { return fields_; }
  /// The line on which it began, from 1.
  std::size_t line() const { return line_; }
  const std::string& name() const { return lines_.name(); }

 private:
  void split_at_tabs(std::string_view line);
  std::string_view without_quotes(std::string_view field);
  void parse_record(std::string_view line);
  std::string_view parse_quoted(std::string_view rest);

  LineReader lines_;
  Delimited dialect_;
  std::size_t line_ = 0;
  std::string text_;               // unquoted fields, contiguous
  std::vector<std::size_t> ends_;  // csv: of each field in text_
  std::vector<std::string_view> fields_;
};

/// Writes JSON lines, or CSV with a header, quotes as in RFC 4180 and LF, by the ending .jsonl or
/// .csv; InputError for another one. The file appears at commit().
class RowWriter {
 public:
  RowWriter(const std::filesystem::path& path, std::vector<std::string> columns);

  /// An array with a value for each column. In CSV, a value that is no string is written as JSON.
  void write(const Json& row);
  void commit() { file_.commit(); }

  /// By the ending of the name, which is checked.
  static bool is_csv(const std::filesystem::path& path);

 private:
  std::vector<std::string> columns_;
  bool is_csv_;
  AtomicFile file_;
};

}  // namespace ringlet::train
