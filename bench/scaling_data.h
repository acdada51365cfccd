// Links, networks and single-device steps of bench/data/scaling.json.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "json_entry.h"
#include "scaling_model.h"

namespace ringlet::bench {

/// Devices joined by a link that train a network.
struct Machine {
  std::string name, basis, source;  // basis of the step of one device: measured or estimated
  Network network;
  Link link;
  DeviceStep device;
  std::vector<int> devices;  // to model
};

Link read_link(const Entry& data, const std::string& name);
Network read_network(const Entry& data, const std::string& name);
/// Of the file that `entry` names as "throughput"; 1 where it does not say.
int read_rounds(const Entry& entry);
Machine read_machine(const Entry& data, const Entry& machine);
/// Out of the JSON of `throughput`: its row of one device, else the one of unconnected devices.
/// Ranks stray as its unconnected devices did, else as its one device did. A file that does not say
/// so has steps of `rounds` rounds, of unconnected devices the means: spread_over_rounds() of them
/// times the root of the devices is that of one, if they stray independently.
DeviceStep read_measured_step(const std::filesystem::path& throughput, int rounds = 1);

}  // namespace ringlet::bench
