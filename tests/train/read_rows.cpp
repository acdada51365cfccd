// Reads files of rows for scripts/oracles/differential.py.
//
//   read_rows < CASES.jsonl
//
// A case is a line {"file": PATH, "columns": "", "split": "", "scale": 5}, a scale of null for
// none. It prints a line with the rows and the report, or {"error": MESSAGE}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "ringlet/train/data/readers.h"

using namespace ringlet;
using namespace ringlet::train;
using nlohmann::json;

namespace {

json target(const TextDataset& data, std::size_t row) {
  if (data.target() == Target::label) return data.label(row);
  if (data.target() == Target::score) return data.score(row);
  return nullptr;
}

json read(const json& given) try {
  ReadOptions options{.columns = given["columns"], .split = {given["split"]}};
  if (given["scale"].is_number()) options.score_scale = given["scale"].get<double>();
  const TextDataset data = read_dataset(given["file"].get<std::string>(), options);
  json rows = json::array();
  for (std::size_t row = 0; row < data.size(); ++row) {
    const RowTexts texts = data.texts(row);
    rows.push_back({std::vector<std::string>(texts.begin(), texts.end()), target(data, row)});
  }
  const FileReport& report = data.report();
  return {{"rows", rows},
          {"names", data.columns()},
          {"columns", report.columns},
          {"unused", report.unused},
          {"skipped", report.skipped},
          {"empty", report.empty_texts}};
} catch (const InputError& error) {
  return {{"error", error.what()}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << read(json::parse(line)).dump() << '\n';
}
