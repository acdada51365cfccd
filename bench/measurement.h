// What one round of a row measured, on all its ranks.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace ringlet::bench {

struct Measurement {
  std::vector<double> step_ms;                          // of each timed step
  std::map<std::string, std::vector<double>> phase_ms;  // by phase, as many
  double real_tokens = 0;                               // per step
  double padded_tokens = 0;
  double pairs = 0;                   // rows of two texts or more, trained per step
  double sentences = 0;               // per step: the texts of these rows
  std::size_t peak_memory_bytes = 0;  // of the largest process
  std::size_t peak_tensor_bytes = 0;  // of its allocator
  double hf_rows_per_pair = 1;        // dataset rows counted per pair trained
  double exposed_ms = 0;              // per step: waiting for collectives
  double wire_bytes = 0;              // per step: sent by one rank
  std::string algorithm;

  std::string to_text() const;
  static Measurement from_text(const std::string& text);
};

/// The ranks' measurements as one. `together`: a step takes as long as on the slowest rank;
/// otherwise as long as on average. Tokens and pairs add up, memory and waits are the largest.
Measurement merge(const std::vector<Measurement>& ranks, bool together);

}  // namespace ringlet::bench
