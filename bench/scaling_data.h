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
Machine read_machine(const Entry& data, const Entry& machine);
/// Out of the JSON of `throughput`: its row of one device, else the one of unconnected devices.
DeviceStep read_measured_step(const std::filesystem::path& throughput);

}  // namespace ringlet::bench
