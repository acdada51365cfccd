// What the throughput bench prints and writes: one row per strategy.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ringlet::bench {

struct Row {
  std::string strategy;
  int devices = 1;
  std::string dtype;
  std::vector<double> step_ms;                          // every timed step
  std::map<std::string, std::vector<double>> phase_ms;  // by phase, as many
  double real_tokens = 0;                               // per step, mean
  double padded_tokens = 0;
  double pairs = 0;                   // trained per step, mean
  std::size_t peak_memory_bytes = 0;  // of the process, since the row began
  std::size_t peak_tensor_bytes = 0;  // of the allocator
  double hf_rows_per_pair = 1;        // dataset rows counted per pair trained

  double pairs_per_s() const;
};

double median(std::vector<double> values);

/// The table, Markdown; speed-ups are against the first row.
std::string to_markdown(const std::vector<Row>& rows);
/// `settings` are written as they are, beside the rows.
void write_json(const std::filesystem::path& path, const std::vector<Row>& rows,
                const std::map<std::string, std::string>& settings);

}  // namespace ringlet::bench
