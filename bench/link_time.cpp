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

// Bytes that a rank sends in an all-reduce, relative to the buffer.
double sent_share(int ranks) { return 2 * (ranks - 1.0) / ranks; }

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkTimes, ranks, all_reduce)

std::string LinkTimes::to_text() const { return nlohmann::json(*this).dump(); }

LinkTimes LinkTimes::from_text(const std::string& text) {
  return nlohmann::json::parse(text).get<LinkTimes>();
}

double LinkTimes::rate() const {
  return sent_share(ranks) * all_reduce.back().first / all_reduce.back().second;
}

LinkTimes time_link(const comm::Group& group, Device device) {
  const Tensor memory = zeros({kBytes.back() / 4}, DType::f32, device);  // sums of it stay finite
  LinkTimes times{group.size(), {}};
  for (const std::int64_t bytes : kBytes) {
    const Tensor buffer = memory.slice(0, bytes / 4);
    const auto once = [&] { group.all_reduce(buffer).wait(); };
    times.all_reduce.emplace_back(bytes, median(repeat(group, device, kBudget, once)));
  }
  return times;
}

Link link_of(const LinkTimes& times, const ThroughputOptions& options) {
  const bool cpu = options.device.type == DeviceType::cpu;
  Link link;
  link.name = "the run's";
  link.share = cpu ? 1.0 / options.threads : 0;
  link.shared_memory = cpu;
  // The model scales times of two devices; each of them sends the whole buffer.
  for (const auto& [bytes, seconds] : times.all_reduce)
    link.timed.emplace_back(bytes, seconds / sent_share(times.ranks));
  return link;
}

}  // namespace ringlet::bench
