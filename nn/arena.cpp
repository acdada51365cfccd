#include "ringlet/nn/arena.h"

#include <algorithm>

namespace ringlet::nn {
namespace {

// Parameters below `module`, cut into units.
std::vector<Unit> cut_units(Module& module) {
  std::vector<Unit> units;
  std::vector<std::string> unit_paths;
  module.visit([&](const std::string& path, Module& below) {
    if (below.is_unit()) unit_paths.push_back(path);
  });
  const auto unit_of = [&](const std::string& name) {
    for (const std::string& path : unit_paths)
      if (name.starts_with(path + '.')) return path;
    const auto dot = name.rfind('.');
    return dot == std::string::npos ? std::string() : name.substr(0, dot);
  };
  for (const NamedParameter& named : module.named_parameters()) {
    const std::string path = unit_of(named.name);
    auto unit = std::find_if(units.begin(), units.end(),
                             [&](const Unit& known) { return known.name == path; });
    if (unit == units.end()) unit = units.insert(units.end(), Unit{path, 0, 0, {}});
    unit->slots.push_back({named.name, named.parameter, 0});
  }
  return units;
}

std::int64_t round_up(std::int64_t n) { return (n + kNormBlock - 1) / kNormBlock * kNormBlock; }

bool already_packed(const Arena& arena, const std::vector<NamedParameter>& parameters) {
  std::size_t packed = 0;
  for (const Unit& unit : arena.units()) packed += unit.slots.size();
  if (packed != parameters.size()) return false;
  for (const NamedParameter& named : parameters)
    if (named.parameter.tensor().storage() != arena.data().storage()) return false;
  return true;
}

}  // namespace

std::shared_ptr<Arena> pack(Module& module) {
  const std::vector<NamedParameter> parameters = module.named_parameters();
  if (module.arena_ && already_packed(*module.arena_, parameters)) return module.arena_;

  auto arena = std::make_shared<Arena>();
  arena->units_ = cut_units(module);
  std::int64_t end = 0;
  for (Unit& unit : arena->units_) {
    unit.begin = end;
    for (Slot& slot : unit.slots) {
      slot.offset = end;
      end += slot.numel();
    }
    unit.end = end;
    end = round_up(end);
  }
  if (parameters.empty()) return module.arena_ = arena;

  const Tensor& first = parameters.front().parameter.tensor();
  arena->data_ = empty({end}, first.dtype(), first.device());
  arena->data_.zero_();  // the padding counts in norms
  for (const Unit& unit : arena->units_) {
    for (const Slot& slot : unit.slots) {
      const Tensor& value = slot.parameter.tensor();
      RINGLET_CHECK(value.dtype() == first.dtype() && value.device() == first.device(), "[pack] ",
                    slot.name, " is ", value.dtype(), " on ", value.device(), ", ",
                    parameters.front().name, " is ", first.dtype(), " on ", first.device());
      Tensor place = arena->data_.slice(slot.offset, slot.offset + slot.numel());
      place.copy_(value);
      slot.parameter.set_tensor(place.view(value.shape()));
    }
  }
  return module.arena_ = arena;
}

const Tensor& Arena::grad() {
  if (grad_.defined() || !data_.defined()) return grad_;
  grad_ = zeros_like(data_);
  for (const Unit& unit : units_)
    for (const Slot& slot : unit.slots)
      slot.parameter.set_grad_buffer(
          grad_.slice(slot.offset, slot.offset + slot.numel()).view(slot.parameter.shape()));
  return grad_;
}

std::vector<LocalSlice> Arena::local_slices() {
  if (sharding_) return sharding_->local_slices();
  if (!data_.defined()) return {};
  return {{0, numel(), data_, grad()}};
}

}  // namespace ringlet::nn
