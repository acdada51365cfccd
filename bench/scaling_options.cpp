#include "scaling_options.h"

#include "parse.h"

#include "ringlet/train/cli/number_in.h"

namespace ringlet::bench {

std::optional<ScalingOptions> parse_scaling(int argc, char** argv) {
  ScalingOptions o;
  o.data = RINGLET_BENCH_DIR "/data/scaling.json";
  CLI::App app{
      "Pairs per second by strategy on 1 to 64 devices, modelled from a step of one device and "
      "the\n"
      "constants of the links, beside figures that were published or measured",
      "scaling"};
  app.add_option("--machine", o.machine, "only this one of the file");
  app.add_option("--throughput", o.throughput,
                 "take the step of one device from this file, which throughput --json wrote; "
                 "needs --machine");
  app.add_option("--devices", o.devices, "how many, in place of the machine's own: 1,2,4")
      ->delimiter(',')
      ->check(cli::number_in(1, 100000));
  app.add_option("--data", o.data, "links, networks, machines and figures to compare with")
      ->capture_default_str();
  app.add_option("--json", o.json, "write all figures to this file");
  app.add_option("--svg", o.svg, "draw the machines' speed-ups to this file");
  if (!parse(app, argc, argv)) return std::nullopt;
  if (!o.throughput.empty() && o.machine.empty())
    fail_input("--throughput needs --machine: whose links and network");
  return o;
}

}  // namespace ringlet::bench
