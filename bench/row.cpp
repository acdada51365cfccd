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

Measurement summary(const Row& row) {
  Measurement all;
  const auto n = static_cast<double>(row.rounds.size());
  const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const Measurement& round : row.rounds) {
    append(all.step_ms, round.step_ms);
    for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
      append(all.phase_ms[phase], round.phase_ms[phase]);
    for (const auto figure : kSums) all.*figure += round.*figure / n;
    for (const auto figure : kOfCollectives) all.*figure += round.*figure / n;
    for (const auto& [name, figure] : kOfSystem) all.*figure += round.*figure / n;
    all.rank_variance_ms2 += round.rank_variance_ms2 / n;
    all.peak_memory_bytes = std::max(all.peak_memory_bytes, round.peak_memory_bytes);
    if (round.memory.peak >= all.memory.peak) all.memory = round.memory;
    if (round.on_paper.total() > all.on_paper.total()) all.on_paper = round.on_paper;
    if (round.idle.steps > 0) all.idle = round.idle;
    all.hf_rows_per_pair = round.hf_rows_per_pair;
    add(all.times, round.times, n);
  }
  return all;
}

double spread(const Row& row) {
  const Measurement all = summary(row);
  return std::sqrt(all.rank_variance_ms2) / mean(all.step_ms);
}

double Row::pairs_per_s() const {
  const Measurement all = summary(*this);
  return 1e3 * all.pairs / median(all.step_ms);
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
