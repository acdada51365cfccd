#include "measurement.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ringlet::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measurement, step_ms, phase_ms, real_tokens, padded_tokens,
                                   pairs, sentences, peak_memory_bytes, peak_tensor_bytes,
                                   hf_rows_per_pair, exposed_ms, wire_bytes, algorithm)

std::string Measurement::to_text() const { return nlohmann::json(*this).dump(); }

Measurement Measurement::from_text(const std::string& text) {
  return nlohmann::json::parse(text).get<Measurement>();
}

namespace {

void combine(std::vector<double>& all, const std::vector<double>& one, bool together, double n) {
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = together ? std::max(all[i], one[i]) : all[i] + one[i] / n;
}

}  // namespace

Measurement merge(const std::vector<Measurement>& ranks, bool together) {
  const auto n = static_cast<double>(ranks.size());
  Measurement all = ranks[0];
  if (!together) {
    for (double& ms : all.step_ms) ms /= n;
    for (auto& [phase, values] : all.phase_ms)
      for (double& ms : values) ms /= n;
  }
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const Measurement& one = ranks[r];
    combine(all.step_ms, one.step_ms, together, n);
    for (auto& [phase, values] : all.phase_ms) combine(values, one.phase_ms.at(phase), together, n);
    all.real_tokens += one.real_tokens;
    all.padded_tokens += one.padded_tokens;
    all.pairs += one.pairs;
    all.sentences += one.sentences;
    all.peak_memory_bytes = std::max(all.peak_memory_bytes, one.peak_memory_bytes);
    all.peak_tensor_bytes = std::max(all.peak_tensor_bytes, one.peak_tensor_bytes);
    all.exposed_ms = std::max(all.exposed_ms, one.exposed_ms);
    all.wire_bytes = std::max(all.wire_bytes, one.wire_bytes);
  }
  return all;
}

}  // namespace ringlet::bench
