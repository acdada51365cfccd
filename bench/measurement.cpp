#include "measurement.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ringlet {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryStats, allocated, peak, sidecars, sidecars_peak, scratch,
                                   graphs, reserved, limit, allocations, system_allocations)

}  // namespace ringlet

namespace ringlet::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceIdle, steps, span_ms, busy_ms, longest_gap_ms, share)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepMemory, parameters, gradients, moments, sidecars, saved,
                                   passing)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelSum, calls, ms, floor_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepTimes, step_ms, kernels, wait_ms, between_ms, beside)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measurement, step_ms, phase_ms, real_tokens, padded_tokens,
                                   pairs, sentences, peak_memory_bytes, memory, on_paper,
                                   hf_rows_per_pair, exposed_ms, collectives_ms, wire_bytes,
                                   rank_variance_ms2, algorithm, processors, times, idle,
                                   data_wait_ms, page_faults, mapped_bytes, threads_started,
                                   context_switches, system_allocations, replayed)

std::string Measurement::to_text() const { return nlohmann::json(*this).dump(); }

Measurement Measurement::from_text(const std::string& text) {
  return nlohmann::json::parse(text).get<Measurement>();
}

namespace {

void combine(std::vector<double>& all, const std::vector<double>& one, bool together, double n) {
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = together ? std::max(all[i], one[i]) : all[i] + one[i] / n;
}

// The batches of one step are of similar size, so the mean over the ranks is subtracted.
double variance_between(const std::vector<Measurement>& ranks) {
  const auto n = static_cast<double>(ranks.size());
  const std::size_t steps = ranks[0].step_ms.size();
  double squares = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    double all = 0;
    for (const Measurement& rank : ranks) all += rank.step_ms[step] / n;
    for (const Measurement& rank : ranks)
      squares += (rank.step_ms[step] - all) * (rank.step_ms[step] - all) / (n - 1);
  }
  return squares / static_cast<double>(steps);
}

}  // namespace

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::optional<double> overlap(const Measurement& measured) {
  if (measured.collectives_ms <= 0) return std::nullopt;
  return std::max(0.0, 1 - measured.exposed_ms / measured.collectives_ms);
}

Measurement merge(const std::vector<Measurement>& ranks, bool together) {
  const auto n = static_cast<double>(ranks.size());
  Measurement all = ranks[0];
  if (!together && ranks.size() > 1) all.rank_variance_ms2 = variance_between(ranks);
  if (!together) {
    for (double& ms : all.step_ms) ms /= n;
    for (std::vector<double>& values : all.phase_ms)
      for (double& ms : values) ms /= n;
  }
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const Measurement& one = ranks[r];
    combine(all.step_ms, one.step_ms, together, n);
    for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
      combine(all.phase_ms[phase], one.phase_ms[phase], together, n);
    for (const auto figure : kSums) all.*figure += one.*figure;
    all.peak_memory_bytes = std::max(all.peak_memory_bytes, one.peak_memory_bytes);
    if (one.memory.peak > all.memory.peak) all.memory = one.memory;
    if (one.on_paper.total() > all.on_paper.total()) all.on_paper = one.on_paper;
    all.processors.insert(all.processors.end(), one.processors.begin(), one.processors.end());
    for (const auto figure : kOfCollectives) all.*figure = std::max(all.*figure, one.*figure);
    for (const auto& [name, figure] : kOfSystem) all.*figure = std::max(all.*figure, one.*figure);
  }
  return all;
}

}  // namespace ringlet::bench
