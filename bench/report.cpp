#include "report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ringlet/core/io/file.h"

namespace ringlet::bench {
namespace {

constexpr double kMiB = 1048576;

/// Relative to as many unconnected devices; 0 if they were not measured.
double share_of_machine(const Row& row, const std::vector<Row>& rows) {
  for (const Row& other : rows)
    if (!other.together && other.devices == row.devices && row.devices > 1)
      return row.pairs_per_s() / other.pairs_per_s();
  return 0;
}

double speedup(const Row& row, const std::vector<Row>& rows) {
  return row.pairs_per_s() / base_row(rows).pairs_per_s();
}

std::vector<std::string> strategies_of(const std::vector<Row>& rows, bool replayed) {
  std::vector<std::string> names;
  for (const Row& row : rows)
    if ((row.summary().replayed > 0) == replayed) names.push_back(row.strategy);
  return names;
}

double mebibytes(double bytes) { return bytes / kMiB; }

std::string memory_line(const MemoryStats& memory, const StepMemory& paper) {
  if (paper.total() == 0) return "";
  return fmt::format(
      "memory: {:.0f} MiB at once, {:.3f} times those on paper: parameters {:.0f}, gradients "
      "{:.0f}, moments {:.0f}, sidecars {:.0f}, saved for backward {:.0f}, passing {:.0f}\n",
      mebibytes(held(memory)), held(memory) / paper.total(), mebibytes(paper.parameters),
      mebibytes(paper.gradients), mebibytes(paper.moments), mebibytes(paper.sidecars),
      mebibytes(paper.saved), mebibytes(paper.passing));
}

std::string idle_line(const DeviceIdle& idle) {
  if (idle.steps == 0) return "";
  return fmt::format(
      "GPU idle, by CUPTI's records of {} replayed steps: {:.2f} %, {:.3f} of {:.3f} ms a step "
      "busy, {:.3f} ms the longest gap\n",
      idle.steps, 100 * idle.share, idle.busy_ms, idle.span_ms, idle.longest_gap_ms);
}

nlohmann::ordered_json to_json(const MemoryStats& memory) {
  return {{"held", held(memory)},          {"peak", memory.peak},
          {"allocated", memory.allocated}, {"graphs", memory.graphs},
          {"reserved", memory.reserved},   {"sidecars", memory.sidecars_peak}};
}

nlohmann::ordered_json to_json(const StepMemory& paper) {
  return {{"parameters", paper.parameters}, {"gradients", paper.gradients},
          {"moments", paper.moments},       {"sidecars", paper.sidecars},
          {"saved", paper.saved},           {"passing", paper.passing},
          {"total", paper.total()}};
}

nlohmann::ordered_json to_json(const DeviceIdle& idle) {
  return {{"steps", idle.steps},
          {"span_ms", idle.span_ms},
          {"busy_ms", idle.busy_ms},
          {"longest_gap_ms", idle.longest_gap_ms}};
}

nlohmann::ordered_json steps_to_json(const Measurement& all) {
  const auto [low, high] = std::minmax_element(all.step_ms.begin(), all.step_ms.end());
  nlohmann::ordered_json j{{"median", median(all.step_ms)}, {"min", *low}, {"max", *high}};
  for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
    if (!all.phase_ms[phase].empty()) j[kPhases[phase]] = median(all.phase_ms[phase]);
  return j;
}

void add_profile(nlohmann::ordered_json& j, const StepTimes& times) {
  for (const auto& [label, sum] : times.kernels)
    j["kernels"][label] = {{"calls", sum.calls}, {"ms", sum.ms}, {"floor_ms", sum.floor_ms}};
  for (const auto& [label, sum] : times.beside)
    j["kernels_beside"][label] = {{"calls", sum.calls}, {"ms", sum.ms}};
  if (times.kernels.empty()) return;
  j["wait_ms"] = times.wait_ms;
  j["between_kernels_ms"] = times.between_ms;
  j["profiled_step_ms"] = times.step_ms;
}

nlohmann::ordered_json to_json(const Row& row, const std::vector<Row>& rows) {
  const Measurement all = row.summary();
  const double ms = median(all.step_ms);
  nlohmann::ordered_json j{{"strategy", row.strategy},
                           {"devices", row.devices},
                           {"dtype", row.dtype},
                           {"algorithm", row.algorithm},
                           {"pairs_per_s", row.pairs_per_s()},
                           {"speedup", speedup(row, rows)}};
  if (const double share = share_of_machine(row, rows); share > 0) j["of_unconnected"] = share;
  if (all.peak_memory_bytes > 0) j["peak_memory_bytes"] = all.peak_memory_bytes;
  j["peak_tensor_bytes"] = all.memory.peak;
  j["memory"] = to_json(all.memory);
  if (all.on_paper.total() > 0) j["memory_on_paper"] = to_json(all.on_paper);
  if (all.idle.steps > 0) j["gpu_idle"] = all.idle.share, j["gpu_recorded"] = to_json(all.idle);
  j["exposed_ms"] = all.exposed_ms;
  if (const auto share = overlap(all))
    j["collectives_ms"] = all.collectives_ms, j["overlap"] = *share;
  if (!row.algorithm.empty()) j["wire_bytes"] = all.wire_bytes;
  j["sentences_per_s"] = 1e3 * all.sentences / ms;
  j["real_tokens_per_s"] = 1e3 * all.real_tokens / ms;
  j["padded_tokens_per_s"] = 1e3 * all.padded_tokens / ms;
  j["tokens_per_pair"] = all.real_tokens / all.pairs;
  j["hf_trainer_samples_per_s"] = row.pairs_per_s() * all.hf_rows_per_pair;
  j["step_ms"] = steps_to_json(all);
  j["steps_ms"] = all.step_ms;
  if (!row.together) j["spread"] = row.spread();
  j["processors"] = row.rounds.back().processors;
  for (const auto& [figure, value] : kOfSystem) j["a_step"][figure] = all.*value;
  add_profile(j, all.times);
  return j;
}

}  // namespace

std::string to_markdown(const std::vector<Row>& rows) {
  std::string out =
      "| strategy | devices | dtype | pairs/s | speed-up | of unconnected | step ms (min-max) | "
      "exposed ms | MB sent | sentences/s | real tokens/s | padded tokens/s | "
      "HF Trainer samples/s* | peak MiB |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Row& row : rows) {
    const Measurement all = row.summary();
    const double ms = median(all.step_ms), rate = row.pairs_per_s();
    const auto [low, high] = std::minmax_element(all.step_ms.begin(), all.step_ms.end());
    const double share = share_of_machine(row, rows);
    out += fmt::format(
        "| {} | {} | {} | {:.2f} | {:.3f} | {} | {:.1f} ({:.1f}-{:.1f}) | {:.1f} | {} | "
        "{:.1f} | {:.0f} | {:.0f} | {:.1f} | {} |\n",
        row.strategy, row.devices, row.dtype, rate, speedup(row, rows),
        share > 0 ? fmt::format("{:.3f}", share) : "-", ms, *low, *high, all.exposed_ms,
        row.algorithm.empty() ? "-" : fmt::format("{:.1f}", all.wire_bytes / 1e6),
        1e3 * all.sentences / ms, 1e3 * all.real_tokens / ms, 1e3 * all.padded_tokens / ms,
        rate * all.hf_rows_per_pair,
        all.peak_memory_bytes > 0
            ? fmt::format("{:.0f}", static_cast<double>(all.peak_memory_bytes) / kMiB)
            : "-");
  }
  for (const Row& row : rows) {
    const Measurement all = row.summary();
    out +=
        fmt::format("\n{}{}{}: ", row.strategy, row.algorithm.empty() ? "" : ", ", row.algorithm);
    for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
      if (!all.phase_ms[phase].empty())
        out += fmt::format("{} {:.1f} ms, ", kPhases[phase], median(all.phase_ms[phase]));
    if (const auto share = overlap(all))
      out += fmt::format("{:.1f} ms of collectives, {:.0f} % of them hidden, ", all.collectives_ms,
                         100 * *share);
    if (all.replayed > 0)
      out += fmt::format("{:.1f} % of the steps replayed, ", 100 * all.replayed);
    out += fmt::format("{:.1f} tokens per pair, {:.0f} MiB of tensors at the peak\n",
                       all.real_tokens / all.pairs, static_cast<double>(all.memory.peak) / kMiB);
    out += fmt::format(
        "a step: {:.3f} ms waiting for data, {:.1f} page faults, {:.2f} MiB newly mapped, {:.1f} "
        "threads started, {:.1f} context switches\n",
        all.data_wait_ms, all.page_faults, all.mapped_bytes / kMiB, all.threads_started,
        all.context_switches);
    out += memory_line(all.memory, all.on_paper) + idle_line(all.idle);
    if (!all.times.kernels.empty()) out += "\n" + to_markdown(all.times);
  }
  return out +
         "\nA sample is a pair whose gradient was used. Bytes sent, exposed communication (waiting "
         "for collectives; under dp, adding up gradients) and the peak are per rank and step. "
         "*What transformers' Trainer would report: all rows of the data sets over the time, "
         "trained or not.\n";
}

std::string replayed_line(const std::vector<Row>& rows) {
  const std::vector<std::string> replayed = strategies_of(rows, true);
  const std::vector<std::string> launched = strategies_of(rows, false);
  std::string line;
  if (!replayed.empty())
    line = fmt::format("Replayed as graphs: `{}`", fmt::join(replayed, "`, `"));
  if (!launched.empty())
    line += fmt::format("{}aunched op by op: `{}`", line.empty() ? "L" : "; l",
                        fmt::join(launched, "`, `"));
  return line + ".\n";
}

void write_json(const std::filesystem::path& path, const std::vector<Row>& rows,
                nlohmann::ordered_json j) {
  j["replayed"] = strategies_of(rows, true);
  j["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) j["rows"].push_back(to_json(row, rows));
  write_file(path, j.dump(1) + "\n");
}

}  // namespace ringlet::bench
