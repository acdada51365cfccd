#include "repeat.h"

#include <algorithm>
#include <memory>
#include <string>

#include "ringlet/core/device/device_time.h"

namespace ringlet::bench {
namespace {

constexpr double kMostRuns = 20000;

}  // namespace

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
  const auto wanted = static_cast<int>(std::clamp(budget / second, 3.0, kMostRuns));
  const int repetitions = std::stoi(world.all_gather_bytes(std::to_string(wanted))[0]);
  world.barrier();
  return run(repetitions);
}

}  // namespace ringlet::bench
