#include "scaling_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace ringlet::bench {
namespace {

constexpr auto kDdp = train::Strategy::ddp;

struct PublishedRow {
  int devices;
  double samples;  // per device and step
  int accumulations;
  double rate;
};

std::vector<PublishedRow> published_rows(const Entry& table) {
  std::vector<PublishedRow> rows;
  for (const Entry& entry : table.list("rows")) {
    const std::vector<double> row = entry.numbers();
    if (row.size() != 4 || *std::min_element(row.begin(), row.end()) <= 0 ||
        std::max(row[0], row[2]) > 1e6)
      entry.refuse("expected [devices, samples, accumulations, samples per second]");
    rows.push_back({static_cast<int>(row[0]), row[1], static_cast<int>(row[2]), row[3]});
  }
  if (rows.empty()) table.refuse("expected rows");
  return rows;
}

std::vector<Check> check_table(const Entry& data, const Entry& table) {
  const Network network = read_network(data, table.text("network"));
  const Link link = read_link(data, table.text("link"));
  const std::vector<PublishedRow> rows = published_rows(table);
  const double fixed = table.number("fixed_ms", 0) / 1e3;
  DeviceStep device;
  device.optimizer_s = table.number("optimizer_ms") / 1e3;
  device.samples = rows[0].samples;
  device.accumulations = rows[0].accumulations;
  device = calibrate(device, network, link, kDdp, rows[0].devices, rows[0].rate);
  const auto seconds = [](const DeviceStep& d) { return d.forward_s + d.backward_s; };
  const double per_sample = (seconds(device) - fixed) / (device.samples / device.accumulations);
  std::vector<double> fitted{0};
  if (table.has("fitted")) fitted = table.numbers("fitted");
  std::vector<Check> checks;
  for (const PublishedRow& row : rows) {
    device.samples = row.samples;
    device.accumulations = row.accumulations;
    const double both = fixed + per_sample * row.samples / row.accumulations;
    device.forward_s = both / 3;
    device.backward_s = 2 * both / 3;
    const auto place = static_cast<double>(checks.size());
    checks.push_back({table.text("name"), fmt::format("{} devices", row.devices), row.rate,
                      model_rate(device, network, link, kDdp, row.devices),
                      std::find(fitted.begin(), fitted.end(), place) != fitted.end()});
  }
  return checks;
}

struct StrategyRow {
  std::string strategy;
  int devices;
  double pairs_per_s;
};

std::vector<StrategyRow> strategy_rows(const Entry& table) {
  std::vector<StrategyRow> rows;
  if (table.has("rows"))
    for (const Entry& row : table.list("rows"))
      rows.push_back({row.text("strategy"), row.count("devices"), row.number("pairs_per_s")});
  else
    for (const Entry& row : Entry::read(table.file("throughput")).list("rows"))
      rows.push_back({row.text("strategy"), row.count("devices"), row.number("pairs_per_s")});
  if (rows.empty()) table.refuse("expected rows");
  return rows;
}

std::vector<Check> check_strategy_table(const Entry& data, const Entry& table) {
  const Network network = read_network(data, table.text("network"));
  const Link link = read_link(data, table.text("link"));
  const std::vector<StrategyRow> rows = strategy_rows(table);
  DeviceStep device;
  if (table.has("throughput")) {
    device = read_measured_step(table.file("throughput"), read_rounds(table));
  } else {
    device.samples = table.number("samples");
    device.optimizer_s = table.number("optimizer_ms") / 1e3;
    device = calibrate(device, network, link, train::Strategy::none, 1, rows.at(0).pairs_per_s);
  }
  std::vector<Check> checks;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StrategyRow& row = rows[i];
    const bool alone = row.strategy == "none" || row.strategy == "unconnected";
    const train::Strategy strategy =
        alone ? train::Strategy::none : train::parse_strategy(row.strategy);
    checks.push_back({table.text("name"), fmt::format("{} x {}", row.strategy, row.devices),
                      row.pairs_per_s, model_rate(device, network, link, strategy, row.devices),
                      i == 0});
  }
  return checks;
}

std::string size_of(double bytes) {
  return bytes < 1048576 ? fmt::format("{:g} KiB", bytes / 1024)
                         : fmt::format("{:g} MiB", bytes / 1048576);
}

void append(std::vector<Check>& all, const std::vector<Check>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

std::vector<Check> check_published(const Entry& data) {
  std::vector<Check> all;
  for (const Entry& table : data.list("published")) append(all, check_table(data, table));
  return all;
}

std::vector<Check> check_strategies(const Entry& data) {
  std::vector<Check> all;
  for (const Entry& table : data.list("measured")) append(all, check_strategy_table(data, table));
  return all;
}

std::vector<Check> check_collectives(const Entry& data) {
  std::vector<Check> all;
  for (const std::string& name : data.texts("collectives")) {
    const Link link = read_link(data, name);
    for (const Entry& row : Entry::read(data.at("links").at(name).file("timed")).list("rows")) {
      if (row.text("algorithm") != "ring") continue;
      const double bytes = row.number("bytes");
      all.push_back({name, "ring, " + size_of(bytes), bytes / row.number("p50_us") / 1e3,
                     bytes / link.all_reduce(row.count("ranks"), bytes) / 1e9, false});
    }
  }
  return all;
}

}  // namespace ringlet::bench
