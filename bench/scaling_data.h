// Links, networks and single-device steps of bench/data/scaling.json.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "json_entry.h"
#include "scaling_model.h"

namespace ringlet::bench {

/// Devices with a link, and the network that they train.
struct Machine {
  std::string name, basis, source;  // basis of the one-device step: measured or estimated
  Network network;
  Link link;
  DeviceStep device;
  std::vector<int> devices;  // numbers of devices to model
};

Link read_link(const Entry& data, const std::string& name);
Network read_network(const Entry& data, const std::string& name);
/// The rounds of the file that `entry` names as "throughput"; 1 if it does not say.
int read_rounds(const Entry& entry);
Machine read_machine(const Entry& data, const Entry& machine);
/// From the JSON of `throughput`: its row of one device, else of unconnected devices. The spread is
/// that of its unconnected devices, else of its one device. If the file has no spread, it is
/// computed from `rounds` rounds of steps. Steps of unconnected devices are means over them: the
/// spread of one is then spread_over_rounds() times the root of their number, if they are
/// independent.
DeviceStep read_measured_step(const std::filesystem::path& throughput, int rounds = 1);

}  // namespace ringlet::bench
