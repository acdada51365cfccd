#include "ringlet/train/data/csv.h"

#include <algorithm>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/json.h"

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

CsvReader::CsvReader(LineReader lines, Delimited dialect)
    : lines_(std::move(lines)), dialect_(dialect) {}

bool CsvReader::next() {
  std::optional<std::string_view> line;
  do {
    line = lines_.next();
  } while (line && line->empty());
  if (!line) return false;
  line_ = lines_.line();
  fields_.clear();
  if (dialect_ == Delimited::tsv) {
    split_at_tabs(*line);
  } else {
    parse_record(*line);
  }
  return true;
}

void CsvReader::split_at_tabs(std::string_view line) {
  text_.clear();
  text_.reserve(line.size());  // views into it stay
  while (true) {
    const std::size_t tab = line.find('\t');
    fields_.push_back(without_quotes(line.substr(0, tab)));
    if (tab == std::string_view::npos) return;
    line.remove_prefix(tab + 1);
  }
}

/// The content of a quoted field; any other field itself.
std::string_view CsvReader::without_quotes(std::string_view field) {
  if (field.size() < 2 || !field.starts_with('"') || !field.ends_with('"')) return field;
  const std::string_view inside = field.substr(1, field.size() - 2);
  if (inside.find('"') == inside.npos) return inside;
  const std::size_t begin = text_.size();
  for (std::size_t i = 0; i < inside.size(); ++i) {
    text_ += inside[i];
    if (inside[i] == '"' && !inside.substr(++i).starts_with('"')) {
      text_.resize(begin);
      return field;
    }
  }
  return std::string_view(text_).substr(begin);
}

void CsvReader::parse_record(std::string_view line) {
  text_.clear();
  ends_.clear();
  for (std::string_view rest = line;;) {
    if (rest.starts_with('"')) {
      rest = parse_quoted(rest.substr(1));
    } else {
      const std::size_t length = std::min(rest.find(','), rest.size());
      text_ += rest.substr(0, length);
      rest.remove_prefix(length);
    }
    ends_.push_back(text_.size());
    if (rest.empty()) break;
    rest.remove_prefix(1);  // the comma
  }
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    fields_.push_back(std::string_view(text_).substr(begin, end - begin));
    begin = end;
  }
}

/// Appends the field after an opening quote to text_; returns the text after the closing quote.
std::string_view CsvReader::parse_quoted(std::string_view rest) {
  const std::size_t opened = lines_.line();
  while (true) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos) {
      text_ += rest;
      text_ += lines_.ended_in_crlf() ? "\r\n" : "\n";
      const std::optional<std::string_view> line = lines_.next();
      if (!line) fail_input(name(), ":", opened, ": expected a closing quote before the end");
      rest = *line;
      continue;
    }
    text_ += rest.substr(0, quote);
    rest.remove_prefix(quote + 1);
    if (!rest.starts_with('"')) break;
    text_ += '"';
    rest.remove_prefix(1);
  }
  if (!rest.empty() && rest[0] != ',') {
    lines_.fail_here("expected a comma or the line's end behind a closing quote");
  }
  return rest;
}

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
