#include "ringlet/nn/device_parts.h"

namespace ringlet::nn {
namespace {

Device device_of(const Unit& unit) {
  const Parameter& first = unit.parameters.front().parameter;
  for (const PlacedParameter& placed : unit.parameters)
    RINGLET_CHECK(placed.parameter.device() == first.device(), "[pack] ", placed.name, " is on ",
                  placed.parameter.device(), ", ", unit.parameters.front().name,
                  " of the same unit on ", first.device());
  return first.device();
}

}  // namespace

DeviceParts::DeviceParts(const Arena& arena) : arena_(arena) {
  const std::span<const Unit> units = arena.units();
  std::vector<Device> devices;
  for (const Unit& unit : units) devices.push_back(device_of(unit));
  for (std::size_t first = 0, last = 0; first < units.size(); first = last) {
    while (last < units.size() && devices[last] == devices[first]) ++last;
    take(units.subspan(first, last - first),
         last < units.size() ? units[last].begin : arena.numel());
  }
}

void DeviceParts::take(std::span<const Unit> units, std::int64_t end) {
  const std::int64_t begin = units.front().begin;
  const Tensor data = take_units(units, begin, end), grad = zeros_like(data);
  slices_.push_back({begin, end, data, grad});
  for (const Unit& unit : units)
    for (const PlacedParameter& placed : unit.parameters)
      placed.parameter.set_grad_buffer(placed.in(grad, begin));
}

std::vector<LocalSlice> DeviceParts::local_slices() {
  auto slice = slices_.begin();
  for (const PlacedParameter& placed : arena_.parameters()) {
    while (slice->end <= placed.offset) ++slice;
    RINGLET_CHECK(placed.parameter.tensor().storage() == slice->data.storage(), "[pack] '",
                  placed.name, "' was packed into another arena");
  }
  return slices_;
}

}  // namespace ringlet::nn
