#include "lengths.h"

#include <algorithm>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/train/data/draws.h"
#include "ringlet/train/data/loader.h"

namespace ringlet::bench {
namespace {

constexpr std::int64_t kFirstWord = 1000;  // below are special and unused pieces
constexpr std::int32_t kPad = 1;

}  // namespace

Lengths::Lengths(const std::filesystem::path& histogram) {
  const Json j = Json::try_parse(read_file(histogram)).value_or(Json());
  if (!j.is_object() || !j.contains("lengths") || !j["lengths"].is_array() || j["lengths"].empty())
    fail_input(histogram.string(), ": expected \"lengths\": [[premise, hypothesis, count], ...]");
  double tokens = 0;
  for (const auto& row : j["lengths"]) {
    const auto is_count = [](const auto& value) {
      return value.is_number_integer() && value.integer() >= 1;
    };
    if (!row.is_array() || row.size() != 3 || !std::ranges::all_of(row, is_count))
      fail_input(histogram.string(), ": expected [premise, hypothesis, count], found ",
                 shown(row.dump()));
    const std::int64_t premise = row[0].integer(), hypothesis = row[1].integer(),
                       count = row[2].integer();
    pairs_.insert(pairs_.end(), static_cast<std::size_t>(count), {premise, hypothesis});
    tokens += static_cast<double>((premise + hypothesis) * count);
  }
  mean_ = tokens / static_cast<double>(pairs_.size());
}

models::PackedBatch Lengths::batch(std::int64_t step, std::int64_t rows, std::int64_t vocabulary,
                                   std::int64_t max_length, bool padded, std::size_t part,
                                   std::size_t parts) const {
  const auto pair_of = [&](std::int64_t row) {
    const auto [premise, hypothesis] =
        pairs_[train::mix64(static_cast<std::uint64_t>(step * rows + row)) % pairs_.size()];
    return std::pair(std::min(premise, max_length), std::min(hypothesis, max_length));
  };
  const auto ids = [&](std::uint64_t seed, std::int64_t length) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(length));
    const std::int64_t first = std::min(kFirstWord, vocabulary / 2);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::int32_t>(
          first + static_cast<std::int64_t>(train::mix64(seed + i) %
                                            static_cast<std::uint64_t>(vocabulary - first)));
    return out;
  };
  std::vector<std::int64_t> tokens;
  for (std::int64_t row = 0; row < rows; ++row)
    tokens.push_back(pair_of(row).first + pair_of(row).second);

  models::BatchBuilder builder(2);
  const std::vector<std::vector<std::size_t>> dealt = train::deal_rows(tokens, parts);
  for (const std::size_t mine : dealt[part]) {
    const auto row = static_cast<std::int64_t>(mine);
    const auto k = static_cast<std::uint64_t>(step * rows + row);
    const auto [premise, hypothesis] = pair_of(row);
    const std::vector<std::int32_t> a = ids(k << 20, premise), b = ids((k << 20) + 512, hypothesis);
    const std::span<const std::int32_t> texts[] = {a, b};
    builder.add_row(texts, row);
    builder.add_label(static_cast<std::int64_t>(train::mix64(~k) % 3));
  }
  return builder.build(rows, padded, kPad);
}

}  // namespace ringlet::bench
