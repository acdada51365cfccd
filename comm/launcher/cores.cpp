#include "ringlet/comm/launcher/cores.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "ringlet/comm/host.h"
#include "ringlet/core/threads/processors.h"

namespace ringlet::comm {
namespace {

/// A number of /sys/devices/system/cpu/cpuN/topology; 0 where it is unknown.
int topology(int cpu, const char* name) {
  int value = 0;
  std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" + name) >> value;
  return value;
}

}  // namespace

std::vector<Processor> processors() {
  std::vector<Processor> all;
  for (const int cpu : affinity())
    all.push_back({topology(cpu, "physical_package_id"), topology(cpu, "core_id"), cpu});
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::vector<int>> share_cores(int n) {
  const std::vector<Processor> all = processors();
  const auto parts = static_cast<std::size_t>(n);
  std::vector<std::vector<int>> shares(parts);
  if (all.size() < parts) return shares;
  for (std::size_t i = 0; i < parts; ++i)
    for (std::size_t at = i * all.size() / parts; at < (i + 1) * all.size() / parts; ++at)
      shares[i].push_back(all[at].number);
  return shares;
}

std::vector<std::vector<int>> processors_of_devices(std::vector<Processor> processors, int n,
                                                    int threads) {
  const auto devices = static_cast<std::size_t>(n), each = static_cast<std::size_t>(threads);
  if (processors.size() < devices * each) return {};
  std::sort(processors.begin(), processors.end());
  std::vector<std::pair<int, Processor>> ranked;  // with the index within its core
  for (const Processor& next : processors) {
    const bool same = !ranked.empty() && ranked.back().second.socket == next.socket &&
                      ranked.back().second.core == next.core;
    ranked.emplace_back(same ? ranked.back().first + 1 : 0, next);
  }
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(devices * each);
  std::sort(ranked.begin(), ranked.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<std::vector<int>> out(devices);
  for (std::size_t i = 0; i < ranked.size(); ++i) out[i / each].push_back(ranked[i].second.number);
  return out;
}

void pin_devices(const std::vector<Device>& devices) {
  if (!environment_variable(kPinned)) return;
  const auto shares = share_cores(static_cast<int>(devices.size()));
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (!shares[d].empty()) set_processors(devices[d], shares[d]);
}

}  // namespace ringlet::comm
