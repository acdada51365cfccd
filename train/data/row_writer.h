// Rows of named fields into a file that readers.h reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"

namespace ringlet::train {

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
