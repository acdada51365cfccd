// Reads files of rows for scripts/oracles/differential.py.
//
//   read_rows < CASES.jsonl
//
// A case is a line {"file": PATH, "columns": "", "split": "", "scale": 5}, a scale of null for
// none. It prints a line with the rows and the report, or {"error": MESSAGE}.
#include <iostream>
#include <string>

#include "ringlet/core/io/json.h"
#include "ringlet/train/data/readers.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

Json target(const TextDataset& data, std::size_t row) {
  if (data.target() == Target::label) return data.label(row);
  if (data.target() == Target::score) return data.score(row);
  return nullptr;
}

Json read(const Json& given) try {
  ReadOptions options{.columns = given["columns"].text(), .split = {given["split"].text()}};
  if (given["scale"].is_number()) options.score_scale = given["scale"].get<double>();
  const TextDataset data = read_dataset(given["file"].get<std::string>(), options);
  Json rows = Json::array();
  for (std::size_t row = 0; row < data.size(); ++row) {
    const RowTexts texts = data.texts(row);
    rows.push_back({std::vector<std::string>(texts.begin(), texts.end()), target(data, row)});
  }
  const FileReport& report = data.report();
  Json skipped = Json::array();
  for (const auto& [line, why] : report.skipped) skipped.push_back(Json::array({line, why}));
  return {{"rows", rows},
          {"names", data.columns()},
          {"columns", report.columns},
          {"unused", report.unused},
          {"skipped", skipped},
          {"empty", report.empty_texts}};
} catch (const InputError& error) {
  return {{"error", error.what()}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << read(Json::parse(line)).dump() << '\n';
}
