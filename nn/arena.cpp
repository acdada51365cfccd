#include "ringlet/nn/arena.h"

#include <algorithm>
#include <set>

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
  std::set<const void*> packed;
  for (const Unit& unit : arena.units())
    for (const Slot& slot : unit.slots) packed.insert(slot.parameter.state().get());
  if (packed.size() != parameters.size()) return false;
  for (const NamedParameter& named : parameters) {
    if (!packed.contains(named.parameter.state().get())) return false;
    const bool elsewhere = !arena.data().defined();  // sharded, or only planned
    if (!elsewhere && named.parameter.tensor().storage() != arena.data().storage()) return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<Arena> plan(Module& module) {
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
  arena->numel_ = end;
  for (const NamedParameter& named : parameters) {
    const Parameter &first = parameters.front().parameter, &one = named.parameter;
    RINGLET_CHECK(one.dtype() == first.dtype() && one.device() == first.device(), "[pack] ",
                  named.name, " is ", one.dtype(), " on ", one.device(), ", ",
                  parameters.front().name, " is ", first.dtype(), " on ", first.device());
  }
  return module.arena_ = arena;
}

std::shared_ptr<Arena> pack(Module& module) {
  std::shared_ptr<Arena> arena = plan(module);
  if (arena->data_.defined() || arena->sharding_ || arena->numel_ == 0) return arena;
  const Tensor& first = arena->units_.front().slots.front().parameter.tensor();
  arena->data_ = empty({arena->numel_}, first.dtype(), first.device());
  arena->data_.zero_();  // the padding counts in norms
  for (const Unit& unit : arena->units_) {
    for (const Slot& slot : unit.slots) {
      Tensor place = arena->data_.slice(slot.offset, slot.offset + slot.numel());
      place.copy_(slot.parameter.tensor());
      slot.parameter.set_tensor(place.view(slot.parameter.shape()));
    }
  }
  return arena;
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

void Arena::drop_grad() {
  grad_ = Tensor();
  for (const Unit& unit : units_) {
    for (const Slot& slot : unit.slots) {
      slot.parameter.state()->grad_buffer = Tensor();
      slot.parameter.zero_grad();
    }
  }
}

std::shared_ptr<Sharding> sharding_of(const Module& module) {
  const std::vector<Parameter> parameters = module.parameters();
  if (parameters.empty()) return nullptr;
  return std::dynamic_pointer_cast<Sharding>(parameters.front().state()->observer.lock());
}

Tensor WholeParameters::operator()(const Parameter& parameter) {
  if (!sharding_) return parameter.tensor();
  const auto [unit, slot] = sharding_->find(parameter);
  if (unit != unit_) {
    whole_ = Tensor();  // one at a time
    whole_ = sharding_->whole_unit(*unit);
    unit_ = unit;
  }
  const std::int64_t begin = slot->offset - unit->begin;
  return whole_.slice(begin, begin + slot->numel()).view(parameter.shape());
}

std::vector<LocalSlice> Arena::local_slices() {
  if (sharding_) return sharding_->local_slices();
  if (!data_.defined()) return {};
  return {{0, numel(), data_, grad()}};
}

}  // namespace ringlet::nn
