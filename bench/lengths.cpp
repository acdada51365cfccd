#include "lengths.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringlet/core/file.h"

namespace ringlet::bench {
namespace {

std::uint64_t splitmix64(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

constexpr std::int64_t kFirstWord = 1000;  // below are special and unused pieces
constexpr std::int32_t kPad = 1;

}  // namespace

Lengths::Lengths(const std::filesystem::path& histogram) {
  const auto j = nlohmann::json::parse(read_file(histogram), nullptr, false);
  if (!j.is_object() || !j.contains("lengths") || !j["lengths"].is_array() || j["lengths"].empty())
    fail_input(histogram.string(), ": expected \"lengths\": [[premise, hypothesis, count], ...]");
  double tokens = 0;
  for (const auto& row : j["lengths"]) {
    if (!row.is_array() || row.size() != 3 || row[0] < 1 || row[1] < 1 || row[2] < 1)
      fail_input(histogram.string(), ": expected [premise, hypothesis, count], found ", row.dump());
    const std::int64_t premise = row[0], hypothesis = row[1], count = row[2];
    pairs_.insert(pairs_.end(), static_cast<std::size_t>(count), {premise, hypothesis});
    tokens += static_cast<double>((premise + hypothesis) * count);
  }
  mean_ = tokens / static_cast<double>(pairs_.size());
}

models::PackedBatch Lengths::batch(std::int64_t step, std::int64_t rows, std::int64_t vocabulary,
                                   std::int64_t max_length, bool padded) const {
  models::BatchBuilder builder(2);
  const auto ids = [&](std::uint64_t seed, std::int64_t length) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(std::min(length, max_length)));
    const std::int64_t first = std::min(kFirstWord, vocabulary / 2);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::int32_t>(
          first + static_cast<std::int64_t>(splitmix64(seed + i) %
                                            static_cast<std::uint64_t>(vocabulary - first)));
    return out;
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto k = static_cast<std::uint64_t>(step * rows + row);
    const auto [premise, hypothesis] = pairs_[splitmix64(k) % pairs_.size()];
    const std::vector<std::int32_t> a = ids(k << 20, premise), b = ids((k << 20) + 512, hypothesis);
    const std::span<const std::int32_t> texts[] = {a, b};
    builder.add_row(texts, row);
    builder.add_label(static_cast<std::int64_t>(splitmix64(~k) % 3));
  }
  return builder.build(0, padded, kPad);
}

}  // namespace ringlet::bench
