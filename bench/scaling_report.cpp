#include "scaling_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ringlet/core/file.h"
#include "ringlet/train/plot.h"

namespace ringlet::bench {
namespace {

using train::Strategy;

const Point* find(const Prediction& prediction, Strategy strategy, int devices) {
  for (const Point& point : prediction.points)
    if (point.strategy == strategy && point.devices == devices) return &point;
  return nullptr;
}

std::string markdown(const Prediction& prediction) {
  const Machine& machine = prediction.machine;
  const DeviceStep& one = machine.device;
  std::string out = fmt::format(
      "\n### {} over {}\n\nThe step of one device, {} ({}): {:g} pairs, forward {:.2f} ms, "
      "backward "
      "{:.2f} ms, optimizer {:.2f} ms{}.\n\n"
      "| strategy | devices | pairs/s, modelled | speed-up, modelled | step ms, modelled | exposed "
      "ms, modelled | optimizer ms, modelled | MB sent, modelled "
      "|\n|---|---|---|---|---|---|---|---|\n",
      machine.name, machine.link.name, machine.basis, machine.source, std::round(one.samples),
      1e3 * one.forward_s, 1e3 * one.backward_s, 1e3 * one.optimizer_s,
      one.spread > 0 ? fmt::format("; a rank's strays by {:.1f} %", 100 * one.spread) : "");
  for (const Point& point : prediction.points)
    out += fmt::format("| {} | {} | {:.{}f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.0f} |\n",
                       train::strategy_name(point.strategy), point.devices, point.rate,
                       point.rate < 100 ? 2 : 0, point.speedup, 1e3 * point.step.seconds(),
                       1e3 * point.step.exposed_s, 1e3 * point.step.optimizer_s,
                       point.step.sent_bytes / 1e6);
  return out;
}

std::string markdown(const Reference& reference) {
  std::string out = fmt::format("\n### The reference's ratios\n\n{}.\n\n| |", reference.source);
  std::string rule = "|---|", published = "| published |";
  for (const auto& [strategy, ratio] : reference.ratios) {
    out += " " + strategy + " |";
    rule += "---|";
    published += fmt::format(" {:.3f} |", ratio);
  }
  out += "\n" + rule + "\n" + published + "\n";
  for (const Prediction& prediction : reference.modelled) {
    out += "| " + prediction.machine.name + ", modelled |";
    for (const auto& ratio : reference.ratios) {
      const Point* point =
          find(prediction, train::parse_strategy(ratio.first), prediction.machine.devices.back());
      out += point ? fmt::format(" {:.3f} |", point->speedup) : " - |";
    }
    out += "\n";
  }
  out += "\nWhy they differ:\n\n";
  for (const std::string& reason : reference.reasons) out += "- " + reason + "\n";
  return out;
}

std::string markdown(const char* title, const char* unit, const std::vector<Check>& checks) {
  std::string out = fmt::format(
      "\n### {}\n\n| | | {} | modelled | error |\n|---|---|---|---|---|\n", title, unit);
  for (const Check& check : checks)
    out += fmt::format("| {} | {} | {:.6g} | {:.6g} | {} |\n", check.table, check.row, check.figure,
                       check.modelled,
                       check.fitted ? "fitted" : fmt::format("{:+.1f} %", 100 * check.error()));
  return out;
}

using Json = nlohmann::ordered_json;

Json json(const std::vector<Check>& checks) {
  Json out = Json::array();
  for (const Check& check : checks)
    out.push_back({{"table", check.table},
                   {"row", check.row},
                   {"figure", check.figure},
                   {"modelled", check.modelled},
                   {"fitted", check.fitted}});
  return out;
}

Json json(const Prediction& prediction) {
  Json out;
  out["machine"] = prediction.machine.name;
  out["link"] = prediction.machine.link.name;
  out["step_of_one_device"] = prediction.machine.basis;
  for (const Point& point : prediction.points)
    out["modelled"].push_back({{"strategy", train::strategy_name(point.strategy)},
                               {"devices", point.devices},
                               {"pairs_per_s", point.rate},
                               {"speedup", point.speedup},
                               {"step_ms", 1e3 * point.step.seconds()},
                               {"compute_ms", 1e3 * point.step.compute_s},
                               {"exposed_ms", 1e3 * point.step.exposed_s},
                               {"optimizer_ms", 1e3 * point.step.optimizer_s},
                               {"straggler_ms", 1e3 * point.step.straggler_s},
                               {"sent_bytes", point.step.sent_bytes}});
  return out;
}

}  // namespace

Prediction predict(Machine machine) {
  Prediction prediction{std::move(machine), {}};
  const Machine& m = prediction.machine;
  const double one = model_rate(m.device, m.network, m.link, Strategy::none, 1);
  const auto add = [&](Strategy strategy, int n) {
    const Step step = model_step(m.device, m.network, m.link, strategy, n);
    const double rate = n * m.device.samples / step.seconds();
    prediction.points.push_back({strategy, n, step, rate, rate / one});
  };
  for (const int n : m.devices) {
    if (n == 1) add(Strategy::none, 1);
    if (n > 1 && n <= m.link.node) add(Strategy::dp, n);
    for (const Strategy each : {Strategy::ddp, Strategy::zero1, Strategy::fsdp})
      if (n > 1) add(each, n);
  }
  return prediction;
}

Reference read_reference(const Entry& data) {
  const Entry entry = data.at("reference");
  Reference reference{entry.text("source"), {}, {}, entry.texts("reasons")};
  for (const char* strategy : {"dp", "ddp", "fsdp"})
    reference.ratios.push_back({strategy, entry.at("ratios").number(strategy)});
  for (const Entry& machine : entry.list("machines"))
    reference.modelled.push_back(predict(read_machine(data, machine)));
  return reference;
}

std::string to_markdown(const Report& report) {
  std::string out = "Modelled, not measured, wherever a column says so.\n";
  for (const Prediction& prediction : report.predictions) out += markdown(prediction);
  return out + markdown(report.reference) +
         markdown("BERT-large as NVIDIA published it", "sequences/s, published", report.published) +
         markdown("Two ranks on a CPU", "pairs/s, measured", report.strategies) +
         markdown("Ring all-reduces of two ranks, from direct ones", "GB/s, measured",
                  report.collectives);
}

void write_json(const std::filesystem::path& path, const Report& report) {
  Json out;
  for (const Prediction& prediction : report.predictions)
    out["machines"].push_back(json(prediction));
  for (const Prediction& prediction : report.reference.modelled)
    out["reference"].push_back(json(prediction));
  out["published"] = json(report.published);
  out["strategies"] = json(report.strategies);
  out["collectives"] = json(report.collectives);
  write_file(path, out.dump(1) + "\n");
}

std::string draw(const Report& report) {
  std::vector<train::LineChart> charts;
  for (const Prediction& prediction : report.predictions) {
    std::map<std::string, train::Series> by_strategy;
    for (const Point& point : prediction.points) {
      if (point.devices == 1) continue;
      train::Series& series = by_strategy[train::strategy_name(point.strategy)];
      if (series.x.empty()) series = {train::strategy_name(point.strategy), {1}, {1}};
      series.x.push_back(point.devices);
      series.y.push_back(point.speedup);
    }
    if (by_strategy.empty()) continue;
    train::LineChart chart{
        prediction.machine.name + ": modelled", "devices", "speed-up, modelled", {}, {}};
    for (const auto& entry : by_strategy) chart.series.push_back(entry.second);
    charts.push_back(std::move(chart));
  }
  return train::draw_lines(charts);
}

}  // namespace ringlet::bench
