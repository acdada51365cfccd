#include <algorithm>

#include "report.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"

namespace ringlet::bench {
namespace {

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
  if (const auto published = published_of(row.strategy))
    j["published"] = {{"devices", published->devices},
                      {"samples_per_s", published->samples_per_s},
                      {"speedup", published->speedup}};
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

void write_json(const std::filesystem::path& path, const std::vector<Row>& rows, Json j) {
  j["replayed"] = strategies_of(rows, true);
  j["rows"] = Json::array();
  for (const Row& row : rows) j["rows"].push_back(to_json(row, rows));
  write_file(path, j.dump(1) + "\n");
}

}  // namespace ringlet::bench
