#include "report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"

namespace ringlet::bench {
namespace {

constexpr double kMiB = 1048576;
constexpr std::size_t kColumns = 100;  // of a terminal

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
      "busy, {:.3f} ms the longest gap\n"
      "without that gap {:.2f} %; it begins {:.2f} steps after the first graph, from {} to {}; "
      "{:.3f} ms from the first activity to the first graph do not count\n",
      idle.steps, 100 * idle.share, idle.busy_ms, idle.span_ms, idle.longest_gap_ms,
      100 * idle.share_without_longest, idle.steps * idle.longest_gap_at, idle.longest_from,
      idle.longest_to, idle.before_ms);
}

using Cells = std::vector<std::string>;

/// Markdown with columns of equal width; the first row is the head.
std::string table(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const Cells& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out, rule = "|";
  for (const Cells& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) out += fmt::format("| {:{}} ", row[i], widths[i]);
    out += "|\n";
    if (&row != &rows[0]) continue;
    for (const std::size_t width : widths) rule += std::string(width + 2, '-') + "|";
    out += rule + "\n";
  }
  return out;
}

std::string fixed(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

/// The speed-up, and its share of a linear one.
Cells speedup_cells(std::optional<double> speedup, int devices) {
  if (!speedup) return {"-", "-"};
  return {fixed(*speedup, 3), fixed(100 * *speedup / devices, 0) + " %"};
}

/// The variation of a row's steps.
std::string spread_cell(const Row& row) {
  const auto spread = row.step_spread();
  return spread ? fixed(100 * *spread, 0) + " %" : "-";
}

/// A warning with the rows that have no ratio; empty without any.
std::string noise_line(const std::vector<Row>& rows) {
  std::vector<std::string> noisy;
  bool base = false;
  for (const Row& row : rows) {
    if (row.is_steady()) continue;
    const std::size_t steps = row.summary().step_ms.size();
    noisy.push_back(
        steps < 2 ? row.strategy + " (1 step)"
                  : fmt::format("{} ({} of {} steps)", row.strategy, spread_cell(row), steps));
    base = base || row.strategy == "none";
  }
  if (noisy.empty()) return "";
  return "\n" + wrapped(fmt::format(
                    "WARNING: the steps of these rows vary too much, or are too few: {}. {}. "
                    "Measure on an idle machine or with more --steps.",
                    fmt::join(noisy, ", "),
                    base ? "No speed-up over `none` is a result" : "Their ratios are left out"));
}

Cells wide_cells(const Row& row, const std::vector<Row>& rows) {
  const Measurement all = row.summary();
  const double ms = median(all.step_ms), rate = row.pairs_per_s();
  const auto [low, high] = std::minmax_element(all.step_ms.begin(), all.step_ms.end());
  const double share = share_of_machine(row, rows);
  return {row.strategy,
          std::to_string(row.devices),
          row.dtype,
          fixed(rate, 2),
          speedup_cells(speedup(row, rows), row.devices)[0],
          share > 0 ? fixed(share, 3) : "-",
          fmt::format("{:.1f} ({:.1f}-{:.1f})", ms, *low, *high),
          spread_cell(row),
          fixed(all.exposed_ms, 1),
          row.algorithm.empty() ? "-" : fixed(all.wire_bytes / 1e6, 1),
          fixed(1e3 * all.sentences / ms, 1),
          fixed(1e3 * all.real_tokens / ms, 0),
          fixed(1e3 * all.padded_tokens / ms, 0),
          fixed(rate * all.hf_rows_per_pair, 1),
          all.peak_memory_bytes > 0
              ? fixed(mebibytes(static_cast<double>(all.peak_memory_bytes)), 0)
              : "-"};
}

/// The phases, collectives and memory of a row's step.
std::string details(const Row& row) {
  const Measurement all = row.summary();
  std::string out =
      fmt::format("{}{}{}: ", row.strategy, row.algorithm.empty() ? "" : ", ", row.algorithm);
  for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
    if (!all.phase_ms[phase].empty())
      out += fmt::format("{} {:.1f} ms, ", kPhases[phase], median(all.phase_ms[phase]));
  if (const auto share = overlap(all))
    out += fmt::format("{:.1f} ms of collectives, {:.0f} % of them hidden, ", all.collectives_ms,
                       100 * *share);
  if (!all.replayed_ms.empty()) {
    const auto [low, high] = std::ranges::minmax(all.replayed_ms);
    out += fmt::format("{:.1f} % of the steps replayed, in {:.1f}-{:.1f} ms, ", 100 * all.replayed,
                       low, high);
  }
  out += fmt::format("{:.1f} tokens per pair, {:.0f} MiB of tensors at the peak\n",
                     all.real_tokens / all.pairs, static_cast<double>(all.memory.peak) / kMiB);
  out += fmt::format(
      "a step: {:.3f} ms waiting for data, {:.1f} page faults, {:.2f} MiB newly mapped, {:.1f} "
      "threads started, {:.1f} context switches\n",
      all.data_wait_ms, all.page_faults, all.mapped_bytes / kMiB, all.threads_started,
      all.context_switches);
  return out + memory_line(all.memory, all.on_paper) + idle_line(all.idle);
}

Json to_json(const MemoryStats& memory) {
  return {{"held", held(memory)},          {"peak", memory.peak},
          {"allocated", memory.allocated}, {"graphs", memory.graphs},
          {"reserved", memory.reserved},   {"sidecars", memory.sidecars_peak}};
}

Json to_json(const StepMemory& paper) {
  return {{"parameters", paper.parameters}, {"gradients", paper.gradients},
          {"moments", paper.moments},       {"sidecars", paper.sidecars},
          {"saved", paper.saved},           {"passing", paper.passing},
          {"total", paper.total()}};
}

Json to_json(const DeviceIdle& idle) {
  return {{"steps", idle.steps},
          {"span_ms", idle.span_ms},
          {"busy_ms", idle.busy_ms},
          {"longest_gap_ms", idle.longest_gap_ms},
          {"longest_gap_at_step", idle.steps * idle.longest_gap_at},
          {"longest_gap_from", idle.longest_from},
          {"longest_gap_to", idle.longest_to},
          {"before_first_graph_ms", idle.before_ms}};
}

Json steps_to_json(const Measurement& all) {
  const auto [low, high] = std::minmax_element(all.step_ms.begin(), all.step_ms.end());
  Json j{{"median", median(all.step_ms)}, {"min", *low}, {"max", *high}};
  for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
    if (!all.phase_ms[phase].empty()) j[kPhases[phase]] = median(all.phase_ms[phase]);
  return j;
}

void add_profile(Json& j, const StepTimes& times) {
  for (const auto& [label, sum] : times.kernels)
    j["kernels"][label] = {{"calls", sum.calls}, {"ms", sum.ms}, {"floor_ms", sum.floor_ms}};
  if (times.kernels.empty()) return;
  j["between_kernels_ms"] = times.between_ms;
  j["profiled_step_ms"] = times.step_ms;
}

Json to_json(const Row& row, const std::vector<Row>& rows) {
  const Measurement all = row.summary();
  const double ms = median(all.step_ms);
  Json j{{"strategy", row.strategy},
         {"devices", row.devices},
         {"dtype", row.dtype},
         {"algorithm", row.algorithm},
         {"pairs_per_s", row.pairs_per_s()}};
  if (const auto spread = row.step_spread()) j["step_spread"] = *spread;
  j["steady"] = row.is_steady();
  if (const auto gain = speedup(row, rows)) j["speedup"] = *gain;
  if (const Json* published = published_of(row.strategy)) j["published"] = *published;
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

const Json* published_of(const std::string& strategy) {
  static const Json data = Json::parse(read_file(RINGLET_BENCH_DIR "/data/scaling.json"));
  return data["reference"]["rows"].find(strategy);
}

std::string to_markdown(const std::vector<Row>& rows) {
  std::vector<Cells> lines{{"strategy", "devices", "pairs/s", "spread", "speed-up", "of linear",
                            "exposed", "4 V100", "of linear"}};
  for (const Row& row : rows) {
    const double rate = row.pairs_per_s();
    const Json* published = published_of(row.strategy);
    const Cells ours = speedup_cells(speedup(row, rows), row.devices);
    Cells theirs{"-", "-"};
    if (published)
      theirs =
          speedup_cells(published->at("speedup").number(), published->at("devices").get<int>());
    lines.push_back({row.strategy, std::to_string(row.devices), fixed(rate, rate < 1000 ? 2 : 0),
                     spread_cell(row), ours[0], ours[1], fixed(row.summary().exposed_ms, 1),
                     theirs[0], theirs[1]});
  }
  return table(lines) + noise_line(rows) + "\n" +
         wrapped(
             "pairs/s: pairs trained per second. spread: range of the steps over their median, of "
             "10 or more steps without the lowest and the highest tenth. exposed: ms of a step "
             "that wait for collectives or messages (under dp, that add up gradients). The last "
             "two columns are Sentence Transformers' "
             "published speed-ups of mpnet-base on four V100. --wide prints all columns and the "
             "phases of a step.");
}

std::string to_wide_markdown(const std::vector<Row>& rows) {
  std::vector<Cells> lines{{"strategy", "devices", "dtype", "pairs/s", "speed-up", "of unconnected",
                            "step ms (min-max)", "spread", "exposed ms", "MB sent", "sentences/s",
                            "real tokens/s", "padded tokens/s", "HF Trainer samples/s*",
                            "peak MiB"}};
  for (const Row& row : rows) lines.push_back(wide_cells(row, rows));
  std::string out = table(lines);
  out += noise_line(rows);
  for (const Row& row : rows) out += "\n" + details(row);
  return out +
         "\nA sample is a pair whose gradient was used. Bytes sent, exposed communication (waiting "
         "for collectives or messages; under dp, adding up gradients) and the peak are per rank "
         "and step. "
         "*What transformers' Trainer would report: all rows of the data sets over the time, "
         "trained or not.\n";
}

std::string to_profiles(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows)
    if (const StepTimes times = row.summary().times; !times.kernels.empty())
      out += fmt::format("\n{}\n\n{}", row.strategy, to_markdown(times));
  return out;
}

std::string wrapped(const std::string& text) {
  std::string out;
  std::size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word; column += word.size()) {
    if (column > 0 && column + 1 + word.size() > kColumns)
      out += '\n', column = 0;
    else if (column > 0)
      out += ' ', ++column;
    out += word;
  }
  return out + "\n";
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

void write_json(const std::filesystem::path& path, const std::vector<Row>& rows, Json j) {
  j["replayed"] = strategies_of(rows, true);
  j["rows"] = Json::array();
  for (const Row& row : rows) j["rows"].push_back(to_json(row, rows));
  write_file(path, j.dump(1) + "\n");
}

}  // namespace ringlet::bench
