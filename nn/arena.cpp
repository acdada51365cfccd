#include "ringlet/nn/arena.h"

#include "ringlet/core/ops/optimizer.h"

namespace ringlet::nn {
namespace {

std::int64_t round_up(std::int64_t n) { return (n + kNormBlock - 1) / kNormBlock * kNormBlock; }

}  // namespace

Arena::Arena(std::vector<Unit> units) : units_(std::move(units)) {
  for (Unit& unit : units_) {
    std::int64_t end = unit.begin = numel_;
    for (PlacedParameter& placed : unit.parameters) {
      placed.offset = end;
      end += placed.numel();
    }
    unit.end = end;
    numel_ = round_up(end);
  }
}

std::vector<std::reference_wrapper<const PlacedParameter>> Arena::parameters() const {
  std::vector<std::reference_wrapper<const PlacedParameter>> all;
  for (const Unit& unit : units_)
    all.insert(all.end(), unit.parameters.begin(), unit.parameters.end());
  return all;
}

std::pair<const Unit*, const PlacedParameter*> Arena::find(const Parameter& parameter) const {
  for (const Unit& unit : units_)
    for (const PlacedParameter& placed : unit.parameters)
      if (placed.parameter == parameter) return {&unit, &placed};
  fail("[module] '", parameter.name(), "' is no parameter of the packed module");
}

const Tensor& Arena::grad() {
  if (grad_.defined() || !data_.defined()) return grad_;
  grad_ = zeros_like(data_);
  for (const PlacedParameter& placed : parameters())
    placed.parameter.set_grad_buffer(placed.in(grad_));
  return grad_;
}

void Arena::drop_grad() {
  grad_ = Tensor();
  for (const PlacedParameter& placed : parameters()) {
    placed.parameter.state()->grad_buffer = Tensor();
    placed.parameter.zero_grad();
  }
}

}  // namespace ringlet::nn
