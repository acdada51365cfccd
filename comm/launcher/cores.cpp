#include "ringlet/comm/launcher/cores.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>

#include "ringlet/comm/host.h"

namespace ringlet::comm {
namespace {

/// A number of /sys/devices/system/cpu/cpuN/topology; 0 where it is unknown.
int topology(int cpu, const char* name) {
  int value = 0;
  std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" + name) >> value;
  return value;
}

}  // namespace

std::vector<std::vector<int>> share_cores(int n) {
  std::vector<std::tuple<int, int, int>> places;  // socket, core, processor
  for (const int cpu : affinity())
    places.emplace_back(topology(cpu, "physical_package_id"), topology(cpu, "core_id"), cpu);
  std::sort(places.begin(), places.end());
  const auto parts = static_cast<std::size_t>(n);
  std::vector<std::vector<int>> shares(parts);
  if (places.size() < parts) return shares;
  for (std::size_t i = 0; i < parts; ++i)
    for (std::size_t at = i * places.size() / parts; at < (i + 1) * places.size() / parts; ++at)
      shares[i].push_back(std::get<2>(places[at]));
  return shares;
}

int usable_processors() { return std::max(1, static_cast<int>(affinity().size())); }

}  // namespace ringlet::comm
