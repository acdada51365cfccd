#include "timed_ranks.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "measurement.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/io/json.h"

namespace ringlet::bench {

comm::Group first_ranks(const comm::Group& world, int ranks, const comm::GroupOptions& options) {
  std::vector<int> first(static_cast<std::size_t>(ranks));
  std::iota(first.begin(), first.end(), 0);
  return world.subgroup(first, options);
}

std::vector<double> repeat(const comm::Group& world, Device device, double budget,
                           const std::function<void()>& once) {
  const auto run = [&](int times) {
    std::vector<std::unique_ptr<DeviceTime>> at;
    at.reserve(static_cast<std::size_t>(times) + 1);
    at.push_back(device_time(device));
    for (int i = 0; i < times; ++i) {
      once();
      at.push_back(device_time(device));
    }
    std::vector<double> seconds;
    for (std::size_t i = 1; i < at.size(); ++i) seconds.push_back(at[i]->seconds_since(*at[i - 1]));
    return seconds;
  };
  const double second = std::max(run(2)[1], 1e-7);
  const auto wanted = static_cast<int>(std::clamp(budget / second, 3.0, 20000.0));
  const int repetitions = std::stoi(world.all_gather_bytes(std::to_string(wanted))[0]);
  world.barrier();
  return run(repetitions);
}

std::string time_link(const comm::Group& group, Device device) {
  // The latency of a call; a size within caches; one beyond them, hardly exceeded by any bucket.
  constexpr std::int64_t kBytes[] = {4 << 10, 1 << 20, 32 << 20};
  constexpr double kBudget = 0.05;  // seconds per size
  // Sums of zeros stay finite.
  const Tensor memory = zeros({*std::rbegin(kBytes) / 4}, DType::f32, device);
  Json link{{"ranks", group.size()}};
  for (const std::int64_t bytes : kBytes) {
    const Tensor buffer = memory.slice(0, bytes / 4);
    const auto once = [&] { group.all_reduce(buffer).wait(); };
    const double us = 1e6 * median(repeat(group, device, kBudget, once));
    link["all_reduce"].push_back({{"bytes", bytes}, {"us", us}});
    link["GB_per_s"] = 2e-3 * (group.size() - 1) / group.size() * static_cast<double>(bytes) / us;
  }
  return link.dump();
}

}  // namespace ringlet::bench
