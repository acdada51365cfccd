// The modelled pairs per second by number of devices: see --help and bench/results/scaling.md.
#include <cstdio>

#include "ringlet/core/error.h"
#include "ringlet/core/file.h"
#include "ringlet/core/quote.h"
#include "ringlet/train/cli/exit_code.h"
#include "scaling_options.h"
#include "scaling_report.h"

namespace ringlet::bench {
namespace {

std::vector<Prediction> predictions(const ScalingOptions& options, const Entry& data) {
  std::vector<Prediction> out;
  std::string names;
  for (const Entry& entry : data.list("machines")) {
    Machine machine = read_machine(data, entry);
    names += (names.empty() ? "" : "; ") + machine.name;
    if (!options.machine.empty() && options.machine != machine.name) continue;
    if (!options.throughput.empty()) {
      machine.device = read_measured_step(options.throughput);
      machine.basis = "measured";
      machine.source = options.throughput;
    }
    if (!options.devices.empty()) machine.devices = options.devices;
    out.push_back(predict(std::move(machine)));
  }
  if (out.empty())
    fail_input("unknown machine ", quote(options.machine), "; ", options.data, " has: ", names);
  return out;
}

int run(int argc, char** argv) {
  const auto options = parse_scaling(argc, argv);
  if (!options) return 0;
  for (const std::string& file : {options->json, options->svg})
    if (!file.empty()) AtomicFile probe(file);
  const Entry data = Entry::read(options->data);
  const Report report{predictions(*options, data), read_reference(data), check_published(data),
                      check_strategies(data), check_collectives(data)};
  std::fputs(to_markdown(report).c_str(), stdout);  // exit_code() detects failed writes
  if (!options->json.empty()) write_json(options->json, report);
  if (!options->svg.empty()) write_file(options->svg, draw(report));
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  return ringlet::cli::exit_code("scaling", [&] { return ringlet::bench::run(argc, argv); });
}
