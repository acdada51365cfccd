#include "ringlet/train/cli/machine.h"
#include "ringlet/core/io/json.h"

#include <fstream>

#include "commit.h"
#include "ringlet/core/base/error.h"

namespace ringlet::cli {

namespace {

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

Json links_json(const std::vector<Link>& links) {
  Json list = Json::array();
  for (const Link& link : links) {
    Json shown{{"from", str(link.from)}, {"to", str(link.to)}, {"right", link.right}};
    if (link.error.empty())
      shown["bytes_per_second"] = link.bytes_per_second;
    else
      shown["error"] = link.error;
    list.push_back(shown);
  }
  return list;
}

}  // namespace

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

Json machine_json(const cuda::Info& info, const std::vector<Link>& links) {
  return {{"cuda", versions_json(info)}, {"gpus", gpus_json(info)}, {"links", links_json(links)}};
}

}  // namespace ringlet::cli
