#include "ringlet/train/data/reranking.h"
#include "ringlet/core/io/json.h"

#include <algorithm>
#include <optional>

#include "ringlet/core/base/quote.h"
#include "ringlet/train/data/json_object.h"
#include "ringlet/train/data/rows.h"
#include "ringlet/train/data/split_filter.h"
#include "ringlet/train/data/text.h"

namespace ringlet::train {
namespace {

/// The texts of a member: a list, or one text.
std::vector<std::string> texts_of(const Json& object, const char* key, const LineReader& lines) {
  const Json* member = object.find(key);
  std::vector<std::string> texts;
  const auto add = [&](const Json& text) {
    if (!text.is_string()) lines.fail_here("expected texts in ", quote(key));
    texts.push_back(text.text());
  };
  if (member == nullptr) lines.fail_here("expected a member ", quote(key));
  if (!member->is_array()) {
    add(*member);
  } else {
    for (const Json& text : *member) add(text);
  }
  return texts;
}

Json read_object(std::string_view line, const LineReader& lines) {
  std::optional<Json> object = Json::try_parse(line, Json::Repeated::refused);
  if (object && object->is_object()) return *std::move(object);
  std::string complaint = "expected a JSON object with each key once, nested less deeply";
  json_members(line, complaint);
  lines.fail_here(complaint);
}

/// The value of the column; InputError for a key that the first object lacks.
std::optional<std::string_view> split_of(const Json& object, const SplitFilter& splits,
                                         const LineReader& lines) {
  const Json* member = object.find(kSplitColumn);
  if (member == nullptr) return std::nullopt;
  if (!splits.has_column()) lines.fail_here("the first row has no 'split'");
  if (!member->is_string()) lines.fail_here("expected a text in 'split'");
  return member->text();
}

/// Adds the last sample, which is of `object`, to the report.
void count(const Json& object, RerankingData& data) {
  FileReport& report = data.report;
  report.count = data.samples.size();
  const RerankingSample& sample = data.samples.back();
  const auto is_empty = [](const std::string& text) { return strip(text).empty(); };
  report.empty_texts += is_empty(sample.query) ? 1 : 0;
  for (const auto* texts : {&sample.positive, &sample.negative})
    report.empty_texts += static_cast<std::size_t>(std::ranges::count_if(*texts, is_empty));
  for (const auto& [key, value] : object.items())
    if (key != kSplitColumn && !has_column(report.columns, key) && !has_column(report.unused, key))
      report.unused.push_back(key);
}

}  // namespace

bool is_reranking(const std::vector<std::string>& columns) {
  return has_column(columns, "query") && has_column(columns, "positive") &&
         has_column(columns, "negative");
}

RerankingData read_reranking(const std::filesystem::path& path, const SplitChoice& split) {
  LineReader lines(path);
  RerankingData data{{}, {.name = lines.name(), .columns = {"query", "positive", "negative"}}};
  std::optional<SplitFilter> splits;  // by the first object
  while (const auto line = lines.next()) {
    if (strip(*line).empty()) continue;
    const Json json = read_object(*line, lines);
    if (!splits) splits.emplace(lines.name(), json.contains(kSplitColumn), split);
    if (!splits->takes(split_of(json, *splits, lines))) continue;
    const std::vector<std::string> query = texts_of(json, "query", lines);
    if (query.size() != 1) lines.fail_here("expected one text in 'query'");
    data.samples.push_back(
        {query.front(), texts_of(json, "positive", lines), texts_of(json, "negative", lines)});
    count(json, data);
  }
  if (splits) splits->finish(data.report);
  if (data.samples.empty()) fail_input(lines.name(), ": empty: expected at least one row");
  return data;
}

}  // namespace ringlet::train
