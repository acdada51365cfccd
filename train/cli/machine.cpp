#include "ringlet/train/cli/machine.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "commit.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/device_time.h"

namespace ringlet::cli {
namespace {

constexpr int kCopies = 3;

// No two of 2^32 places have the same number, nor do neighbours resemble each other.
std::vector<std::int32_t> places(std::int64_t n) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(i) * 2654435761u);
  return values;
}

Json gpus_json(const cuda::Info& info) {
  Json list = Json::array();
  for (const cuda::Gpu& gpu : info.gpus)
    list.push_back({{"name", str("cuda:", list.size())},
                    {"model", gpu.name},
                    {"compute_capability", str(gpu.major, '.', gpu.minor)},
                    {"multiprocessors", gpu.multiprocessors},
                    {"memory_bytes", gpu.memory_bytes},
                    {"peers", gpu.peers}});
  return list;
}

Json versions_json(const cuda::Info& info) {
  if (info.toolkit.empty()) return nullptr;
  return {{"toolkit", info.toolkit}, {"architectures", info.architectures},
          {"driver", info.driver},   {"driver_release", info.release},
          {"cublas", info.cublas},   {"nccl", info.nccl}};
}

}  // namespace

Json check_link(Device from, Device to, std::int64_t numel, const Copy& copy) {
  Json link{{"from", str(from)}, {"to", str(to)}, {"right", false}};
  try {
    const std::vector<std::int32_t> values = places(numel);
    const Tensor source = tensor(values, {numel}, from);
    Tensor target = zeros({numel}, DType::i32, to);
    const Device device = to.type == DeviceType::cpu ? from : to;  // its clock counts
    synchronize(from);
    double rate = 0;
    for (int i = 0; i < kCopies; ++i) {
      const auto begin = device_time(device);
      copy(target, source);
      const double seconds = device_time(device)->seconds_since(*begin);
      rate = std::max(rate, static_cast<double>(target.nbytes()) / seconds);
    }
    link["bytes_per_second"] = rate;
    link["right"] = target.to_vector<std::int32_t>() == values;
  } catch (const Error& error) {
    link["error"] = error.what();
  }
  return link;
}

Json check_links(DeviceType type) {
  Json links = Json::array();
  const int count = has_backend(type) ? backend(type).device_count() : 0;
  for (int i = 0; i < count; ++i) {
    const Device device{type, i};
    links.push_back(check_link(Device{}, device));
    links.push_back(check_link(device, Device{}));
    for (int other = 0; other < count; ++other)
      if (other != i) links.push_back(check_link(device, {type, other}));
  }
  return links;
}

std::string commit() { return RINGLET_COMMIT; }

std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos || line.rfind(key, 0) != 0) continue;
    const std::size_t value = line.find_first_not_of(' ', colon + 1);
    return value == line.npos ? "" : line.substr(value);
  }
  return "";
}

Json machine_json(const cuda::Info& info, Json links) {
  return {{"cuda", versions_json(info)}, {"gpus", gpus_json(info)}, {"links", std::move(links)}};
}

}  // namespace ringlet::cli
