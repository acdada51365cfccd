#include "device_seconds.h"

#include <algorithm>
#include <vector>

#include "ringlet/core/device/device_time.h"

namespace ringlet::bench {
namespace {

constexpr int kBatches = 5;
constexpr int kMostAhead = 200;       // runs; as many fit into the device's queue
constexpr double kLeastRun = 1e-6;    // seconds
constexpr double kHoldMargin = 1e-4;  // seconds, added to 1.5 times the host's time

}  // namespace

double device_seconds(Device device, const std::function<void()>& run, double least) {
  run();  // warms up memory, plans and packed weights
  synchronize(device);
  const auto start = device_time(device);
  const double host_start = steady_seconds();
  run();
  const double host = steady_seconds() - host_start;
  const double each = std::max(device_time(device)->seconds_since(*start), kLeastRun);
  const int runs = static_cast<int>(std::clamp<double>(least / kBatches / each, 1, kMostAhead));
  std::vector<double> batches;
  for (int batch = 0; batch < kBatches; ++batch) {
    hold(device, 1.5 * host * runs + kHoldMargin);
    const auto begin = device_time(device);
    for (int i = 0; i < runs; ++i) run();
    batches.push_back(device_time(device)->seconds_since(*begin) / runs);
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

}  // namespace ringlet::bench
