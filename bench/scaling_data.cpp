#include "scaling_data.h"

#include <algorithm>
#include <cmath>

#include "ringlet/core/error.h"
#include "scaling_network.h"
#include "spread.h"

namespace ringlet::bench {
namespace {

std::vector<std::pair<double, double>> read_timed(const std::filesystem::path& collectives) {
  std::vector<std::pair<double, double>> points;
  for (const Entry& row : Entry::read(collectives).list("rows"))
    if (row.text("op") == "all_reduce" && row.text("algorithm") == "direct" &&
        row.number("ranks") == 2)
      points.push_back({row.number("bytes"), row.number("p50_us") * 1e-6});
  std::sort(points.begin(), points.end());
  if (points.size() < 2 || points.front().first <= 0 || points.front().second <= 0)
    fail_input(collectives.string(), ": expected two sizes or more of direct all-reduces");
  return points;
}

double spread_of(const Entry& row, int rounds) {
  const std::vector<double> steps = row.numbers("steps_ms");
  const std::size_t each = steps.size() / static_cast<std::size_t>(rounds);
  if (each * static_cast<std::size_t>(rounds) != steps.size())
    row.refuse(str("expected steps_ms of ", rounds, " rounds"));
  std::vector<std::vector<double>> apart;
  for (auto step = steps.begin(); step != steps.end(); step += static_cast<std::ptrdiff_t>(each))
    apart.emplace_back(step, step + static_cast<std::ptrdiff_t>(each));
  return spread_over_rounds(apart) * std::sqrt(row.count("devices"));
}

double read_spread(const std::vector<Entry>& rows, int rounds) {
  for (const char* strategy : {"unconnected", "none"})
    for (const Entry& row : rows)
      if (row.text("strategy") == strategy && (rounds > 1 || row.has("spread")))
        return row.has("spread") ? row.number("spread") : spread_of(row, rounds);
  return 0;
}

}  // namespace

int read_rounds(const Entry& entry) { return entry.has("rounds") ? entry.count("rounds") : 1; }

Link read_link(const Entry& data, const std::string& name) {
  const Entry entry = data.at("links").at(name);
  Link link;
  link.name = name;
  link.node = entry.count("node");
  link.tree = entry.flag("tree");
  link.share = entry.number("share", 0);
  link.shared_memory = entry.flag("shared_memory");
  if (entry.has("timed")) {
    link.timed = read_timed(entry.file("timed"));
    return link;
  }
  link.base_s = entry.number("base_us") * 1e-6;
  link.hop_s = entry.number("hop_us") * 1e-6;
  link.rate = entry.number("GB_per_s") * 1e9;
  if (entry.has("node_GB_per_s")) {
    link.node_hop_s = entry.number("node_hop_us") * 1e-6;
    link.node_rate = entry.number("node_GB_per_s") * 1e9;
  }
  if (link.rate == 0 || link.node_rate == 0) entry.refuse("expected a rate above 0");
  return link;
}

Network read_network(const Entry& data, const std::string& name) {
  const Entry entry = data.at("networks").at(name);
  models::EncoderConfig config;
  config.hidden_size = entry.count("hidden");
  config.intermediate_size = entry.count("intermediate");
  config.num_hidden_layers = entry.count("layers");
  config.vocab_size = entry.count("vocabulary");
  config.max_position_embeddings = entry.count("positions");
  return network_of(config, entry.number("gradient_bytes"), entry.number("rows"));
}

DeviceStep read_measured_step(const std::filesystem::path& throughput, int rounds) {
  const Entry file = Entry::read(throughput);
  const std::vector<Entry> rows = file.list("rows");
  for (const char* strategy : {"none", "unconnected"})
    for (const Entry& row : rows) {
      if (row.text("strategy") != strategy) continue;
      const Entry ms = row.at("step_ms");
      if (!ms.has("forward")) continue;  // a replayed step has no separate phases
      const double median = ms.number("median") / 1e3, optimizer = ms.number("optimizer") / 1e3;
      const double forward = ms.number("forward") / 1e3, backward = ms.number("backward") / 1e3;
      const double samples = row.number("pairs_per_s") / row.count("devices") * median;
      if (median <= optimizer || forward + backward <= 0 || samples <= 0)
        row.refuse("expected a step that takes time");
      DeviceStep device = measured_step(samples, median, forward, backward, optimizer);
      device.bf16 = row.text("dtype") == "bf16";
      device.spread = read_spread(rows, rounds);
      return device;
    }
  file.refuse("expected a row of strategy none or unconnected, with phases");
}

Machine read_machine(const Entry& data, const Entry& entry) {
  Machine machine{entry.text("name"),
                  entry.text("basis"),
                  entry.text("source"),
                  read_network(data, entry.text("network")),
                  read_link(data, entry.text("link")),
                  {},
                  {}};
  for (const double n : entry.numbers("devices")) {
    if (n < 1 || n > 1e6) entry.refuse("expected 1 to 1000000 devices");
    machine.devices.push_back(static_cast<int>(n));
  }
  DeviceStep& device = machine.device;
  if (entry.has("throughput")) {
    device = read_measured_step(entry.file("throughput"), read_rounds(entry));
    return machine;
  }
  device.samples = entry.number("samples");
  device.forward_s = entry.number("forward_ms") / 1e3;
  device.backward_s = entry.number("backward_ms") / 1e3;
  device.optimizer_s = entry.number("optimizer_ms") / 1e3;
  device.bf16 = entry.flag("bf16");
  device.forwards = entry.has("forwards") ? entry.count("forwards") : 1;
  device.slowest = entry.number("slowest", 1);
  if (device.samples == 0 || device.seconds() == 0) entry.refuse("expected a step that takes time");
  return machine;
}

}  // namespace ringlet::bench
