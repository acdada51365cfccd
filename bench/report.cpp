#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringlet/core/file.h"

namespace ringlet::bench {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double Row::pairs_per_s() const { return 1e3 * pairs / median(step_ms); }

std::string to_markdown(const std::vector<Row>& rows) {
  std::string out =
      "| strategy | devices | dtype | pairs/s | speed-up | step ms (min-max) | sentences/s | real "
      "tokens/s | padded tokens/s | HF Trainer samples/s* | peak MiB |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Row& row : rows) {
    const double ms = median(row.step_ms);
    const auto [low, high] = std::minmax_element(row.step_ms.begin(), row.step_ms.end());
    out += fmt::format(
        "| {} | {} | {} | {:.2f} | {:.3f} | {:.1f} ({:.1f}-{:.1f}) | {:.1f} | {:.0f} | {:.0f} | "
        "{:.1f} | {:.0f} |\n",
        row.strategy, row.devices, row.dtype, row.pairs_per_s(),
        row.pairs_per_s() / rows[0].pairs_per_s(), ms, *low, *high, 2 * row.pairs_per_s(),
        1e3 * row.real_tokens / ms, 1e3 * row.padded_tokens / ms,
        row.pairs_per_s() * row.hf_rows_per_pair,
        static_cast<double>(row.peak_memory_bytes) / 1048576);
  }
  for (const Row& row : rows) {
    out += fmt::format("\n{}: ", row.strategy);
    for (const auto& [phase, values] : row.phase_ms)
      out += fmt::format("{} {:.1f} ms, ", phase, median(values));
    out += fmt::format("{:.1f} tokens per pair, {:.0f} MiB of tensors at the peak\n",
                       row.real_tokens / row.pairs,
                       static_cast<double>(row.peak_tensor_bytes) / 1048576);
  }
  return out +
         "\nA sample is a pair whose gradient was used. *What transformers' Trainer would report: "
         "all rows of the data sets over the time, trained or not.\n";
}

void write_json(const std::filesystem::path& path, const std::vector<Row>& rows,
                const std::map<std::string, std::string>& settings) {
  nlohmann::ordered_json j;
  for (const auto& [key, value] : settings) j[key] = value;
  j["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    const double ms = median(row.step_ms);
    nlohmann::ordered_json r;
    r["strategy"] = row.strategy;
    r["devices"] = row.devices;
    r["dtype"] = row.dtype;
    r["pairs_per_s"] = row.pairs_per_s();
    r["speedup"] = row.pairs_per_s() / rows[0].pairs_per_s();
    r["peak_memory_bytes"] = row.peak_memory_bytes;
    r["peak_tensor_bytes"] = row.peak_tensor_bytes;
    r["sentences_per_s"] = 2 * row.pairs_per_s();
    r["real_tokens_per_s"] = 1e3 * row.real_tokens / ms;
    r["padded_tokens_per_s"] = 1e3 * row.padded_tokens / ms;
    r["tokens_per_pair"] = row.real_tokens / row.pairs;
    r["hf_trainer_samples_per_s"] = row.pairs_per_s() * row.hf_rows_per_pair;
    r["step_ms"]["median"] = ms;
    r["step_ms"]["min"] = *std::min_element(row.step_ms.begin(), row.step_ms.end());
    r["step_ms"]["max"] = *std::max_element(row.step_ms.begin(), row.step_ms.end());
    for (const auto& [phase, values] : row.phase_ms) r["step_ms"][phase] = median(values);
    r["steps_ms"] = row.step_ms;
    j["rows"].push_back(r);
  }
  write_file(path, j.dump(1) + "\n");
}

}  // namespace ringlet::bench
