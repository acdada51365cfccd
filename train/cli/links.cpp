#include "ringlet/train/cli/links.h"

#include <algorithm>

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

}  // namespace

Link check_link(Device from, Device to, std::int64_t numel, const Copy& copy) {
  Link link{from, to, false, 0, ""};
  try {
    const std::vector<std::int32_t> values = places(numel);
    const Tensor source = tensor(values, {numel}, from);
    Tensor target = zeros({numel}, DType::i32, to);
    const Device device = to.type == DeviceType::cpu ? from : to;  // its clock counts
    synchronize(from);
    for (int i = 0; i < kCopies; ++i) {
      const auto begin = device_time(device);
      copy(target, source);
      const double seconds = device_time(device)->seconds_since(*begin);
      link.bytes_per_second =
          std::max(link.bytes_per_second, static_cast<double>(target.nbytes()) / seconds);
    }
    link.right = target.to_vector<std::int32_t>() == values;
  } catch (const Error& error) {
    link.error = error.what();
  }
  return link;
}

std::vector<Link> check_links(DeviceType type) {
  std::vector<Link> links;
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

}  // namespace ringlet::cli
