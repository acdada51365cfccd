#include "link_time.h"

#include <array>
#include <nlohmann/json.hpp>

#include "measurement.h"
#include "repeat.h"

namespace ringlet::bench {
namespace {

// The latency of a call; a size within caches; one beyond them, hardly exceeded by any bucket.
constexpr std::array<std::int64_t, 3> kBytes{4 << 10, 1 << 20, 32 << 20};
constexpr double kBudget = 0.05;  // seconds per size

}  // namespace

std::string time_link(const comm::Group& group, Device device) {
  const Tensor memory = zeros({kBytes.back() / 4}, DType::f32, device);  // sums of it stay finite
  nlohmann::json link{{"ranks", group.size()}};
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
