#include "ringlet/train/data/retrieval.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <unordered_set>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/train/data/lines.h"
#include "ringlet/train/data/rows.h"

namespace ringlet::train {
namespace {

namespace fs = std::filesystem;

/// "corpus" or "queries" of a data set in BEIR's layout.
fs::path find_beside(const fs::path& relevant, const std::string& stem) {
  const fs::path folder = relevant.parent_path();
  for (const fs::path& place : {folder, folder / ".."})
    for (const char* ending : {".jsonl", ".tsv", ".csv"})
      if (const fs::path file = place / (stem + ending); path_exists(file)) return file;
  fail_input(relevant.string(), ": expected a file ", stem,
             ".jsonl, .tsv or .csv in its folder or the one above; or --", stem, " FILE");
}

/// How many relevant documents the corpus lacks; empty for none. InputError for all.
std::string lacking(const RetrievalData& data) {
  const std::unordered_set<std::string> corpus(data.corpus.ids.begin(), data.corpus.ids.end());
  std::set<std::string> relevant;
  for (const auto& of_query : data.relevant)
    relevant.insert(of_query.second.begin(), of_query.second.end());
  const auto missing = static_cast<std::size_t>(
      std::ranges::count_if(relevant, [&](const std::string& id) { return !corpus.contains(id); }));
  const std::string note =
      str(missing, " of ", relevant.size(), " relevant documents are not in the corpus");
  if (missing == relevant.size()) fail_input(data.name, ": ", note);
  return missing > 0 ? note : "";
}

bool is_relevant(const RowReader& rows) {
  const std::string_view text = rows.text("score");
  const auto score = parse_number<double>(text);
  if (!score || !std::isfinite(*score))
    rows.fail_here("expected a number in 'score', found ", quote(text));
  return *score > 0;
}

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

TextsById read_texts_by_id(const fs::path& path, bool numbered) {
  const std::unique_ptr<RowReader> rows = open_rows(LineReader(path), {});
  const std::vector<std::string> columns = rows->columns();
  const std::string id = has_column(columns, "_id") ? "_id" : "id";
  if (!has_column(columns, "text") || !(numbered || has_column(columns, id)))
    fail_input(rows->name(), ":1: expected ",
               numbered ? "a column text" : "columns _id or id, and text", ", found ",
               rows->shown_columns());
  numbered = numbered && !has_column(columns, id);
  TextsById found;
  std::unordered_set<std::string> known;
  std::size_t empty_texts = 0;
  while (rows->next()) {
    found.ids.emplace_back(numbered ? std::to_string(found.ids.size()) : rows->text(id));
    found.texts.emplace_back(rows->whole_text("text"));
    if (!known.insert(found.ids.back()).second)
      rows->fail_here("id ", quote(found.ids.back()), " occurs twice");
    empty_texts += strip(found.texts.back()).empty() ? 1 : 0;
  }
  found.report = rows->report({id, "text"});
  found.report.empty_texts = empty_texts;
  found.report.count = found.ids.size();
  return found;
}

bool is_qrels(const std::vector<std::string>& columns) {
  return has_column(columns, "query-id") && has_column(columns, "corpus-id") &&
         has_column(columns, "score");
}

void refuse_trec(const RowReader& rows) {
  const std::vector<std::string> columns = rows.columns();
  std::istringstream words(columns.size() == 1 ? columns[0] : "");
  const std::vector<std::string> fields =
      columns.size() == 1 ? std::vector<std::string>(std::istream_iterator<std::string>(words), {})
                          : columns;
  if (fields.size() != 4 || !parse_number<int>(fields[3])) return;
  if (fields[1] != "0" && fields[1] != "Q0") return;
  fail_input(rows.name(),
             ":1: relevant pairs of TREC, without a header; expected columns query-id, ",
             "corpus-id and score: awk 'BEGIN {OFS=\"\\t\"; print \"query-id\", \"corpus-id\", ",
             "\"score\"} {print $1, $3, $4}'");
}

RetrievalData read_retrieval(const RetrievalFiles& files) {
  const auto beside = [&](const fs::path& given, const char* stem) {
    return read_texts_by_id(given.empty() ? find_beside(files.relevant, stem) : given);
  };
  const std::unique_ptr<RowReader> rows = open_rows(LineReader(files.relevant), {});
  refuse_trec(*rows);
  if (!is_qrels(rows->columns()))
    fail_input(rows->name(), ":1: expected columns query-id, corpus-id and score, found ",
               rows->shown_columns());
  SplitFilter splits(rows->name(), has_column(rows->columns(), kSplitColumn), files.split);
  RetrievalData data{
      rows->name(), beside(files.queries, "queries"), beside(files.corpus, "corpus"), {}};
  std::size_t pairs = 0, others = 0;
  const std::unordered_set<std::string> known(data.queries.ids.begin(), data.queries.ids.end());
  while (rows->next()) {
    if (!splits.takes(rows->find(kSplitColumn))) continue;
    const std::string query(rows->text("query-id"));
    if (!known.contains(query)) rows->fail_here("no query has the id ", quote(query));
    const bool relevant = is_relevant(*rows);
    if (relevant) data.relevant[query].emplace(rows->text("corpus-id"));
    ++(relevant ? pairs : others);
  }
  data.report = rows->report({"query-id", "corpus-id", "score", kSplitColumn});
  data.report.count = pairs;
  data.report.skipped = {{others, "score of 0 or less"}};
  splits.finish(data.report);
  if (data.relevant.empty()) fail_input(rows->name(), ": expected a score above 0, found none");
  data.report.note = lacking(data);
  return data;
}

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
