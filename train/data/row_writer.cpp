#include "ringlet/train/data/row_writer.h"
#include "ringlet/core/io/json.h"

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

std::string csv_field(const Json& value) {
  const std::string text = value.is_string() ? value.text() : value.dump();
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string csv_line(const Json& fields) {
  std::string line;
  for (const Json& field : fields) line += csv_field(field) + ',';
  line.back() = '\n';
  return line;
}

}  // namespace

bool RowWriter::is_csv(const std::filesystem::path& path) {
  if (path.extension() == ".csv") return true;
  if (path.extension() == ".jsonl") return false;
  fail_input(path.string(), ": expected a name that ends in .csv or .jsonl");
}

RowWriter::RowWriter(const std::filesystem::path& path, std::vector<std::string> columns)
    : columns_(std::move(columns)), is_csv_(is_csv(path)), file_(path) {
  if (is_csv_) file_.write(csv_line(Json(columns_)));
}

void RowWriter::write(const Json& row) {
  if (is_csv_) return file_.write(csv_line(row));
  Json line;
  for (std::size_t i = 0; i < columns_.size(); ++i) line[columns_[i]] = row.at(i);
  file_.write(line.dump() + '\n');
}

}  // namespace ringlet::train
