#include "row.h"

#include <algorithm>
#include <cmath>

namespace ringlet::bench {
namespace {

void add(KernelSums& all, const KernelSums& one, double n) {
  for (const auto& [label, sum] : one) {
    KernelSum& mean = all[label];
    mean = {mean.calls + sum.calls / n, mean.ms + sum.ms / n, mean.floor_ms + sum.floor_ms / n};
  }
}

void add(StepTimes& all, const StepTimes& one, double n) {
  add(all.kernels, one.kernels, n);
  add(all.beside, one.beside, n);
  for (const auto& [what, ms] : one.wait_ms) all.wait_ms[what] += ms / n;
  all.between_ms += one.between_ms / n;
  all.step_ms += one.step_ms / n;
}

}  // namespace

Summary summary(const Row& row) {
  Summary all;
  const auto n = static_cast<double>(row.rounds.size());
  for (const Measurement& round : row.rounds) {
    all.step_ms.insert(all.step_ms.end(), round.step_ms.begin(), round.step_ms.end());
    for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
      all.phase_ms[phase].insert(all.phase_ms[phase].end(), round.phase_ms[phase].begin(),
                                 round.phase_ms[phase].end());
    all.mean.real_tokens += round.real_tokens / n;
    all.mean.padded_tokens += round.padded_tokens / n;
    all.mean.pairs += round.pairs / n;
    all.mean.sentences += round.sentences / n;
    all.mean.exposed_ms += round.exposed_ms / n;
    all.mean.collectives_ms += round.collectives_ms / n;
    all.mean.wire_bytes += round.wire_bytes / n;
    all.mean.rank_variance_ms2 += round.rank_variance_ms2 / n;
    all.mean.peak_memory_bytes = std::max(all.mean.peak_memory_bytes, round.peak_memory_bytes);
    if (round.memory.peak >= all.mean.memory.peak) all.mean.memory = round.memory;
    if (round.on_paper.total() > all.mean.on_paper.total()) all.mean.on_paper = round.on_paper;
    if (round.idle.steps > 0) all.mean.idle = round.idle;
    all.mean.hf_rows_per_pair = round.hf_rows_per_pair;
    for (const auto figure : kLargest) all.mean.*figure += round.*figure / n;
    add(all.mean.times, round.times, n);
  }
  return all;
}

double spread(const Row& row) {
  const Summary all = summary(row);
  return std::sqrt(all.mean.rank_variance_ms2) / mean(all.step_ms);
}

double Row::pairs_per_s() const {
  const Summary all = summary(*this);
  return 1e3 * all.mean.pairs / median(all.step_ms);
}

const Row* find_row(const std::vector<Row>& rows, const std::string& strategy) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Row& row) { return row.strategy == strategy; });
  return found == rows.end() ? nullptr : &*found;
}

const Row& base_row(const std::vector<Row>& rows) {
  const Row* none = find_row(rows, "none");
  return none ? *none : rows[0];
}

}  // namespace ringlet::bench
