#include "measurement.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ringlet {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryStats, allocated, peak, sidecars, sidecars_peak, scratch,
                                   graphs, reserved, limit, allocations, system_allocations)

}  // namespace ringlet

namespace ringlet::train {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Span, track, kind, name, begin, end, depth)

}  // namespace ringlet::train

namespace ringlet::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceIdle, steps, span_ms, busy_ms, longest_gap_ms, share,
                                   share_without_longest, longest_gap_at, longest_from, longest_to,
                                   before_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepMemory, parameters, gradients, moments, sidecars, saved,
                                   passing)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelSum, calls, ms, floor_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepTimes, step_ms, kernels, between_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measurement, step_ms, phase_ms, real_tokens, padded_tokens,
                                   pairs, sentences, peak_memory_bytes, memory, on_paper,
                                   hf_rows_per_pair, exposed_ms, collectives_ms, wire_bytes,
                                   rank_variance_ms2, algorithm, processors, times, timeline, idle,
                                   data_wait_ms, page_faults, mapped_bytes, threads_started,
                                   context_switches, system_allocations, replayed, replayed_ms)

std::string Measurement::to_text() const { return nlohmann::json(*this).dump(); }

Measurement Measurement::from_text(const std::string& text) {
  return nlohmann::json::parse(text).get<Measurement>();
}

namespace {

// Each step's time on the slowest rank, or the mean.
template <class TimesOf>
std::vector<double> combined(const std::vector<Measurement>& ranks, bool together,
                             const TimesOf& times_of) {
  std::vector<double> all(times_of(ranks[0]).size());
  for (const Measurement& rank : ranks) {
    const std::vector<double>& one = times_of(rank);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] =
          together ? std::max(all[i], one[i]) : all[i] + one[i] / static_cast<double>(ranks.size());
  }
  return all;
}

void take_largest_memory(Measurement& all, const Measurement& one) {
  all.peak_memory_bytes = std::max(all.peak_memory_bytes, one.peak_memory_bytes);
  if (one.memory.peak >= all.memory.peak) all.memory = one.memory;
  if (one.on_paper.total() > all.on_paper.total()) all.on_paper = one.on_paper;
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

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Adds an n-th of `one`.
void add(StepTimes& all, const StepTimes& one, double n) {
  for (const auto& [label, sum] : one.kernels) {
    KernelSum& mean = all.kernels[label];
    mean = {mean.calls + sum.calls / n, mean.ms + sum.ms / n, mean.floor_ms + sum.floor_ms / n};
  }
  all.between_ms += one.between_ms / n;
  all.step_ms += one.step_ms / n;
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
  Measurement all = ranks[0];
  all.step_ms = combined(
      ranks, together, [](const auto& one) -> auto& { return one.step_ms; });
  for (std::size_t i = 0; i < kPhases.size(); ++i)
    all.phase_ms[i] = combined(
        ranks, together, [i](const auto& one) -> auto& { return one.phase_ms[i]; });
  if (!together && ranks.size() > 1) all.rank_variance_ms2 = variance_between(ranks);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const Measurement& one = ranks[r];
    for (const auto figure : kSums) all.*figure += one.*figure;
    for (const auto figure : kOfCollectives) all.*figure = std::max(all.*figure, one.*figure);
    for (const auto& [name, figure] : kOfSystem) all.*figure = std::max(all.*figure, one.*figure);
    take_largest_memory(all, one);
    append(all.processors, one.processors);
    append(all.timeline, one.timeline);
  }
  return all;
}

Measurement Row::summary() const {
  Measurement all;
  const auto n = static_cast<double>(rounds.size());
  for (const Measurement& round : rounds) {
    append(all.step_ms, round.step_ms);
    append(all.replayed_ms, round.replayed_ms);
    for (std::size_t i = 0; i < kPhases.size(); ++i) append(all.phase_ms[i], round.phase_ms[i]);
    for (const auto figure : kSums) all.*figure += round.*figure / n;
    for (const auto figure : kOfCollectives) all.*figure += round.*figure / n;
    for (const auto& [name, figure] : kOfSystem) all.*figure += round.*figure / n;
    all.rank_variance_ms2 += round.rank_variance_ms2 / n;
    take_largest_memory(all, round);
    if (round.idle.steps > 0) all.idle = round.idle;
    all.hf_rows_per_pair = round.hf_rows_per_pair;
    add(all.times, round.times, n);
  }
  return all;
}

double Row::spread() const {
  const Measurement all = summary();
  return std::sqrt(all.rank_variance_ms2) / mean(all.step_ms);
}

std::optional<double> Row::step_spread() const {
  std::vector<double> steps = summary().step_ms;
  if (steps.size() < 2) return {};
  std::sort(steps.begin(), steps.end());
  const std::size_t cut = steps.size() / 10;
  return (steps[steps.size() - 1 - cut] - steps[cut]) / median(steps);
}

bool Row::is_steady() const {
  constexpr double kBearable = 0.5;  // on idle machines mostly 0.05 to 0.46
  const auto spread = step_spread();
  return spread && *spread <= kBearable;
}

double Row::pairs_per_s() const {
  const Measurement all = summary();
  return 1e3 * all.pairs / median(all.step_ms);
}

double share_of_machine(const Row& row, const std::vector<Row>& rows) {
  for (const Row& other : rows)
    if (!other.together && other.devices == row.devices && row.devices > 1)
      return !row.is_steady() || !other.is_steady() ? 0 : row.pairs_per_s() / other.pairs_per_s();
  return 0;
}

std::optional<double> speedup(const Row& row, const std::vector<Row>& rows) {
  const auto base = std::ranges::find(rows, "none", &Row::strategy);
  if (base == rows.end() || !row.is_steady() || !base->is_steady()) return {};
  return row.pairs_per_s() / base->pairs_per_s();
}

std::vector<std::string> strategies_of(const std::vector<Row>& rows, bool replayed) {
  std::vector<std::string> names;
  for (const Row& row : rows)
    if ((row.summary().replayed > 0) == replayed) names.push_back(row.strategy);
  return names;
}

}  // namespace ringlet::bench
