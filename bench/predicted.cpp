#include "predicted.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ringlet/core/error.h"
#include "scaling_network.h"
#include "spread.h"

namespace ringlet::bench {
namespace {

using train::Strategy;

enum Phase : std::size_t { kData, kForward, kBackward, kOptimizer };  // of kPhases

/// A row's medians, in ms.
struct Medians {
  explicit Medians(const Row& row) : all(summary(row)), step(median(all.step_ms)) {}

  bool apart() const { return !all.phase_ms[kForward].empty(); }
  double phase(Phase phase) const { return median(all.phase_ms[phase]); }
  double both() const { return phase(kForward) + phase(kBackward); }

  Summary all;
  double step;
};

/// A row with steps launched in the same way as those of several devices.
const Row& row_to_model_from(const std::vector<Row>& rows, const Row& none) {
  const Row* side = find_row(rows, "unconnected");
  return !Medians(none).apart() && side && Medians(*side).apart() ? *side : none;
}

/// The row with the spread of ranks.
const Row& row_of_spread(const std::vector<Row>& rows, const Row& none) {
  const Row* side = find_row(rows, "unconnected");
  return side && side->devices > 1 ? *side : none;
}

DeviceStep device_of(const Row& row, const ThroughputOptions& options) {
  const Medians alone(row);
  const Measurement& mean = alone.all.mean;
  const bool apart = alone.apart();
  DeviceStep device = measured_step(
      mean.pairs / row.devices, alone.step / 1e3, apart ? alone.phase(kForward) / 1e3 : 1,
      apart ? alone.phase(kBackward) / 1e3 : 2, alone.phase(kOptimizer) / 1e3);
  device.bf16 = options.dtype == DType::bf16;
  if (options.per_column)
    device.forwards = static_cast<int>(std::lround(mean.sentences / mean.pairs));
  return device;
}

Excess excess_of(const Medians& row, const Medians& alone, const Step& modelled) {
  Excess excess;
  const double exposed = row.all.mean.exposed_ms;
  excess.data = row.phase(kData) - alone.phase(kData);
  excess.collectives = exposed - 1e3 * modelled.exposed_s;
  if (row.apart() && alone.apart()) {
    const double share = modelled.gather_s > 0 ? modelled.gather_s / modelled.exposed_s : 0;
    const double gathers = std::min(share * exposed, row.phase(kOptimizer));
    excess.optimizer = row.phase(kOptimizer) - gathers - 1e3 * modelled.optimizer_s;
  }
  excess.compute = row.step - 1e3 * modelled.seconds() - excess.sum();
  return excess;
}

// Replay speeds up one device, but not several.
std::string launched_text(const Predicted& predicted) {
  if (predicted.launched == 0) return "";
  if (predicted.from != "none")
    return fmt::format(
        " That of `none` is replayed as a graph, those of several devices are not: launched op by "
        "op beside the others it takes {:.2f} times as long.",
        predicted.launched);
  return " It is replayed as a graph, those of several devices are not: what launching them costs "
         "counts as compute.";
}

std::string stragglers_text(const Predicted& predicted) {
  const double spread = predicted.device.spread;
  if (spread == 0) return "";
  return fmt::format(
      " A rank's step strays by {:.1f} % ({}), so the slowest of {} is expected to take {:.1f} % "
      "longer than the mean.",
      100 * spread,
      predicted.stray == "none" ? "that of `none`, by its rounds"
                                : "between those of `unconnected`",
      predicted.link.ranks, 100 * spread * expected_maximum(predicted.link.ranks));
}

std::string step_line(const Predicted& predicted) {
  const DeviceStep& device = predicted.device;
  const auto& [bytes, seconds] = predicted.link.all_reduce.front();
  std::string out = fmt::format(
      "\nModelled from the step of `{}` (forward {:.1f}, backward {:.1f}, optimizer {:.1f} ms) "
      "and all-reduces of {} ranks in this run: {:g} KiB in {:.1f} us, {:g} MiB at {:.2f} GB/s a "
      "rank.{}",
      predicted.from, 1e3 * device.forward_s, 1e3 * device.backward_s, 1e3 * device.optimizer_s,
      predicted.link.ranks, bytes / 1024, 1e6 * seconds,
      predicted.link.all_reduce.back().first / 1048576, predicted.link.rate() / 1e9,
      predicted.phases ? ""
                       : " Phases are not apart: forward and backward are taken as 1 : 2, the "
                         "update as part of them.");
  if (predicted.unconnected > 0)
    out += fmt::format(" Unconnected devices compute {:.2f} times as long as one alone.",
                       predicted.unconnected);
  return out + launched_text(predicted) + stragglers_text(predicted) + "\n\n";
}

std::string line(const PredictedRow& row, int devices) {
  const std::string start = fmt::format("| {} | {} |", train::strategy_name(row.strategy), devices);
  if (!row.measured) return fmt::format("{} - | {:.3f} | - | - |\n", start, row.speedup);
  const Excess& excess = row.measured->excess;
  double blamed = 0;
  for (const auto& [term, ms] : excess.terms())
    if (term == std::string(excess.blame())) blamed = ms;
  return fmt::format("{} {:.3f} | {:.3f} | {:+.1f} % | {}, {:+.2f} of {:+.2f} ms |\n", start,
                     row.measured->speedup, row.speedup,
                     100 * (row.measured->speedup / row.speedup - 1), excess.blame(), blamed,
                     excess.sum());
}

}  // namespace

Excess::Terms Excess::terms() const {
  return {{{"compute", compute},
           {"collectives", collectives},
           {"optimizer", optimizer},
           {"data", data}}};
}

const char* Excess::blame() const {
  const double sign = sum() < 0 ? -1 : 1;
  const Terms all = terms();
  return std::max_element(
             all.begin(), all.end(),
             [&](const auto& a, const auto& b) { return sign * a.second < sign * b.second; })
      ->first;
}

const PredictedRow* Predicted::find(const Row& row) const {
  for (const PredictedRow& each : rows)
    if (row.strategy == train::strategy_name(each.strategy) && row.devices == link.ranks)
      return &each;
  return nullptr;
}

Predicted predict(const std::vector<Row>& rows, const models::EncoderConfig& config,
                  const LinkTimes& link, const ThroughputOptions& options) {
  const Row* none = find_row(rows, "none");
  RINGLET_CHECK(none, "[predict] no row none");
  const Row& from = row_to_model_from(rows, *none);
  const Row& stray = row_of_spread(rows, *none);
  const Medians alone(from), replayed(*none);
  Predicted out{link, from.strategy, device_of(from, options), 0, alone.apart(), 0, stray.strategy,
                {}};
  out.device.spread = spread(stray);
  if (replayed.all.mean.replayed > 0) out.launched = alone.step / replayed.step;
  // A batch reads at most one row per token; on a GPU the whole gradient of the table is sent.
  const bool cpu = options.device.type == DeviceType::cpu;
  const Network network =
      network_of(config, 4, cpu ? alone.all.mean.real_tokens / from.devices : 0);
  const Link modelled = link_of(link, options);
  if (const Row* side = find_row(rows, "unconnected"); side && side != &from && alone.apart())
    out.unconnected = Medians(*side).both() / alone.both();
  for (const Strategy strategy :
       {Strategy::dp, Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::fsdp}) {
    const Step step = model_step(out.device, network, modelled, strategy, link.ranks);
    PredictedRow row{strategy, link.ranks * replayed.step / 1e3 / step.seconds(), {}};
    if (const Row* measured = find_row(rows, train::strategy_name(strategy)))
      row.measured = {measured->pairs_per_s() / none->pairs_per_s(),
                      excess_of(Medians(*measured), alone, step)};
    out.rows.push_back(row);
  }
  return out;
}

std::string to_markdown(const Predicted& predicted) {
  std::string out = step_line(predicted) +
                    "| strategy | devices | speed-up, measured | speed-up, modelled | measured "
                    "against modelled | to blame |\n|---|---|---|---|---|---|\n";
  for (const PredictedRow& row : predicted.rows) out += line(row, predicted.link.ranks);
  return out +
         "\nTo blame: the largest of four terms, which add up to what a step takes longer than the "
         "modelled one. data: waiting for it beyond that step's; optimizer: its phase, less "
         "ZeRO's gathers, beyond a device's share of that step's; collectives: exposed beyond the "
         "modelled; compute: what is left, forward and backward slower than in it.\n";
}

}  // namespace ringlet::bench
