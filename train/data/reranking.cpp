#include "ringlet/train/data/reranking.h"

#include <nlohmann/json.hpp>

#include "ringlet/core/base/quote.h"
#include "ringlet/train/data/json_object.h"
#include "ringlet/train/data/rows.h"
#include "ringlet/train/data/text.h"

namespace ringlet::train {
namespace {

/// The texts of a member: a list, or one text.
std::vector<std::string> texts_of(const nlohmann::json& object, const char* key,
                                  const LineReader& lines) {
  const auto member = object.find(key);
  std::vector<std::string> texts;
  const auto add = [&](const nlohmann::json& text) {
    if (!text.is_string()) lines.fail_here("expected texts in ", quote(key));
    texts.push_back(text.get<std::string>());
  };
  if (member == object.end()) lines.fail_here("expected a member ", quote(key));
  if (!member->is_array()) {
    add(*member);
  } else {
    for (const nlohmann::json& text : *member) add(text);
  }
  return texts;
}

}  // namespace

bool is_reranking(const std::vector<std::string>& columns) {
  return has_column(columns, "query") && has_column(columns, "positive") &&
         has_column(columns, "negative");
}

std::vector<RerankingSample> read_reranking(const std::filesystem::path& path) {
  LineReader lines(path);
  std::vector<RerankingSample> samples;
  while (const auto line = lines.next()) {
    if (strip(*line).empty()) continue;
    const auto json = nlohmann::json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) lines.fail_here(json_complaint(*line));
    const std::vector<std::string> query = texts_of(json, "query", lines);
    if (query.size() != 1) lines.fail_here("expected one text in 'query'");
    samples.push_back(
        {query.front(), texts_of(json, "positive", lines), texts_of(json, "negative", lines)});
  }
  if (samples.empty()) fail_input(lines.name(), ": empty: expected at least one row");
  return samples;
}

}  // namespace ringlet::train
